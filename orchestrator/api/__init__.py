"""The Python API (``import orchestrator``): load, plan and play a sweep, and open a run folder."""
