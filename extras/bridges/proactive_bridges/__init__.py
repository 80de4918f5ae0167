"""proactive-sweep in other frameworks: Inspect, verifiers, Gymnasium, the Hub."""
