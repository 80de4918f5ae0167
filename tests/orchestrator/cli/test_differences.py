"""``ls differences`` prints each difference from the package in full, with its reason, its switch and its episodes."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from orchestrator.cli.main import app
from sweeps.differences import differences


def test_every_difference_is_printed_with_its_reason_and_switch() -> None:
    shown = CliRunner().invoke(app, ["ls", "differences"], env={"COLUMNS": "400"})
    words = " ".join(shown.output.split())

    assert shown.exit_code == 0
    for row in differences():
        assert all(text in words for text in (row.name, row.ours, row.package, row.reason, row.switch)), row.name


def test_the_episodes_of_the_paper_are_counted() -> None:
    shown = CliRunner().invoke(app, ["ls", "differences", "--json"])
    counts = {row["name"]: row["paper_episodes"] for row in json.loads(shown.stdout)}

    assert (counts["start-token"], counts["chat-variables"], counts["large-files"]) == (43_143, 0, None)
