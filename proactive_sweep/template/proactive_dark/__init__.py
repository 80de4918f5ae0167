"""A scenario, a policy, a judge and a measure for proactive-sweep."""
