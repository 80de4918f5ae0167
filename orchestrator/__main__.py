"""``python -m orchestrator`` is the console script ``proactive-sweep``."""

from orchestrator.cli import main

main()
