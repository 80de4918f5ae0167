"""[evidence] declares the main question of a sweep, outside of every key."""

import pytest

from orchestrator.storage.run_folder import settings
from sweeps.load import SweepError, build

TABLE = {"data": "none", "models": ["oracle"], "conditions": ["zero-shot", "hint"]}


def test_the_question_is_read_and_changes_no_key_and_no_identity():
    plain, asked = (build(table, "x") for table in (TABLE, {**TABLE, "evidence": {"primary": "hint", "margin": 1.5}}))

    assert (asked.evidence.primary, asked.evidence.margin) == ("hint", 1.5) and plain.evidence is None
    assert [cell.key for cell in plain.cells()] == [cell.key for cell in asked.cells()]
    assert settings(plain) == settings(asked)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"primary": "history"}, "is compared with zero-shot; name both in conditions"),
        ({"primary": "zero-shot"}, "is compared with zero-shot"),
        ({"margin": 0}, "margin"),
        ({"secondary": "hint"}, "secondary"),
    ],
)
def test_a_question_that_the_sweep_cannot_answer_is_refused(evidence, message):
    with pytest.raises(SweepError, match=message):
        build({**TABLE, "evidence": evidence}, "x")
