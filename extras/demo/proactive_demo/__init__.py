"""The demo of proactive-sweep: a drawn benchmark, an embedded model, embedded-135m and their training."""
