"""The command line of the core with the commands of this extra."""

from orchestrator.cli.main import build_app
from proactive_people.label_command import label
from proactive_people.play_command import play

app = build_app()
app.command("play")(play)
app.command("label")(label)
