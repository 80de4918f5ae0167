"""Makes ``python -m orchestrator`` the same as the command ``proactive-sweep``."""

from orchestrator.cli.main import main

main()
