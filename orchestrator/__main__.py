"""``python -m orchestrator`` is the console script ``proactive-sweep``."""

from orchestrator.cli.main import main

main()
