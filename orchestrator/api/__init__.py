"""What ``import orchestrator`` offers to Python: load a sweep, plan it, play it, and open what a run folder holds."""
