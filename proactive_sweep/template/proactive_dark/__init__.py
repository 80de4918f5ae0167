"""A scenario, a policy and a measure for proactive-sweep."""
