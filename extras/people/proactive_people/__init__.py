"""People in proactive-sweep: a person plays, and labels answers blind."""
