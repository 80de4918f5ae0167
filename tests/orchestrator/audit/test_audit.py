"""The audit finds nothing in an honest folder, under every condition, and finds a changed reply, verdict, move or ending.

Open-ended answers are read by a judge who is often careless, so that every kind of verdict is there.
"""

import shutil
from pathlib import Path
from random import Random

import polars as pl
import pytest

from actors.engine.backend import Request, ScriptedBackend
from actors.engine.baselines import Baseline
from envs.openended import accepted_answers
from envs.types import Mode
from orchestrator.audit import audit as audits
from orchestrator.audit import open_ended
from orchestrator.audit.audit import audit
from orchestrator.audit.records import Recording
from orchestrator.audit.reference_process import AuditError
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.verdict_store import verdicts
from sweeps.conditions import CONDITIONS, VARIANTS
from tests.oracle import oracle_path, oracle_python
from tests.orchestrator.report import runs
from tests.parity.verdicts import reply as careless

POLICIES = ("oracle", "always-ask", "uniform")


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    if oracle_python() is None:
        pytest.skip("the package needs Python >= 3.12, and there is none here")
    return oracle_path(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def played(demo_data, tmp_path_factory):
    """A run folder of three policies under every condition and variant, played without a cluster."""
    names = [name for name in (*CONDITIONS, *VARIANTS) if "icl" not in name]
    wanted = runs.sweep(demo_data, list(POLICIES), names, selection={"limit": 4})
    return runs.played(tmp_path_factory.mktemp("run") / "audited", wanted)


def misread(request: Request) -> str:
    """A judge who counts wrongly, forgets to close its thinking, writes no list at all, or does it right."""
    situation = request.situation
    clear = situation.state.mode is Mode.REFERENCE
    return careless(Random(request.seed), len(accepted_answers(situation.sample, clear)))


@pytest.fixture(scope="module")
def judged(demo_data, tmp_path_factory):
    """A run folder of open-ended answers, each read by the rule judge and by one who is careless."""
    conditions = ["zero-shot", "hint", "reference"]
    wanted = runs.sweep(
        demo_data, ["ask-properly", "guess-aloud"], conditions, protocol="oeg", judge={"model": "rule-judge"}
    )
    folder = runs.played(tmp_path_factory.mktemp("run") / "judged", wanted)
    runs.heard(folder, wanted, wanted.judge, Baseline("rule-judge"))
    other = wanted.judge.model.model_copy(update={"name": "careless"})
    return runs.heard(folder, wanted, wanted.judge.model_copy(update={"model": other}), ScriptedBackend(misread))


@pytest.fixture(scope="module")
def talked(demo_data, tmp_path_factory):
    """A run folder of open-ended episodes of several turns, some of whose requests are not possible."""
    wanted = runs.sweep(
        demo_data, ["oracle", "ask-properly", "guess-aloud"], ["zero-shot", "hint"], protocol="oeg-multi",
        judge={"model": "rule-judge"}, open_ended={"selection": {"limit": 4}},
    )  # fmt: skip
    lost = ScriptedBackend(
        lambda request: ("Turn the lamp on.", "Please move the camera.", "Let us wait.")[request.seed % 3]
    )
    return runs.played(tmp_path_factory.mktemp("run") / "talked", wanted, backends={"guess-aloud": lost})


def test_judged_turns_are_read_and_played_again(talked, tmp_path, package):
    found = audit(talked, package, oracle_python())

    assert found.clean and found.episodes == 3 * 2 * 7 * 4 and found.turns > found.episodes
    marks = pl.col("judged").str.replace(r"0(?:,[01])*$", "0")
    other = pl.col("read_as").str.replace("left", "right")
    for change in (
        {"turns_judged": marks},
        {"turns_read_as": other.alias("read_as")},
        {"turns_move": pl.lit(None, pl.String)},
    ):
        changed = {name: expr.alias(name.removeprefix("turns_")) for name, expr in change.items()}
        assert audit(copied(talked, tmp_path / next(iter(change)), **changed), package, oracle_python()).differences, (
            change
        )


@pytest.fixture(scope="module")
def called(demo_data, tmp_path_factory):
    """A run folder of tool calls, malformed ones among them."""
    wanted = runs.sweep(
        demo_data, ["oracle", "uniform", "malformed-calls"], ["zero-shot", "hint", "reference"], protocol="tools",
        selection={"limit": 4},
    )  # fmt: skip
    return runs.played(tmp_path_factory.mktemp("run") / "called", wanted)


def test_calls_are_read_and_played_again(called, tmp_path, package):
    found = audit(called, package, oracle_python())

    assert found.clean and found.episodes == 3 * 3 * 7 * 4 and found.turns > found.episodes
    for change in (
        {"turns_reply": pl.col("reply").str.replace("left", "right")},
        {"turns_read_as": pl.col("read_as").str.replace("left", "right")},
        {"turns_move": pl.lit(None, pl.String)},
        {"episodes_unparsable": pl.lit(0, pl.Int32)},
    ):
        changed = {name: expr.alias(name.partition("_")[2]) for name, expr in change.items()}
        assert audit(copied(called, tmp_path / next(iter(change)), **changed), package, oracle_python()).differences, (
            change
        )


def copied(played: Path, target: Path, **changes: pl.Expr) -> Path:
    """The run folder with a changed column in one of its tables: ``turns_reply=...``."""
    for table in ("episodes", "turns", "verdicts"):
        (target / table).mkdir(parents=True)
        for part in (played / table).glob("*.parquet"):
            mine = {name.removeprefix(f"{table}_"): e for name, e in changes.items() if name.startswith(table)}
            pl.read_parquet(part).with_columns(**mine).write_parquet(target / table / part.name)
    (target / "sweep.resolved.toml").write_bytes((played / "sweep.resolved.toml").read_bytes())
    return target


def test_an_honest_folder_has_no_difference(played, package):
    found = audit(played, package, oracle_python())

    assert found.episodes == 1_212 and found.turns > found.episodes
    assert (found.differences, found.raised, found.verdicts, found.maps) == ((), (), 0, 84)
    assert list(found.lines())[-1].endswith("0 differences")


KEY, TURN = pl.col("key"), pl.col("turn")
ONE = KEY.str.starts_with("always-ask/ROD/zero-shot/") & (TURN == 2)
MOVED = KEY.str.starts_with("always-ask/VSOD/random-proactive/") & (TURN == 1)
TAMPERED = {
    "a reply": ({"turns_reply": pl.when(ONE).then(pl.lit("I give up")).otherwise("reply")}, "turn 2, option"),
    "a verdict": ({"turns_option": pl.when(ONE).then(pl.lit("wrong")).otherwise("option")}, "turn 2, option"),
    "a picture": ({"turns_image": pl.when(ONE).then(pl.lit("x.jpg")).otherwise("image")}, "turn 2, image"),
    "a move": (
        {"turns_move": pl.when(MOVED).then(pl.when(pl.col("move") == "wait").then(pl.lit("rewind")).otherwise(pl.lit("wait")))
         .otherwise("move")}, "turn 1, move",
    ),
    "an ending": (
        {"episodes_ending": pl.when(KEY.str.starts_with("oracle/QD/hint/")).then(pl.lit("wrong")).otherwise("ending")},
        "ending",
    ),
    "a count": ({"episodes_turns": pl.when(KEY.str.starts_with("oracle/QD/hint/")).then(9).otherwise("turns")}, "turns"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_changed_is_found(name, played, package, tmp_path):
    changes, what = TAMPERED[name]

    found = audit(copied(played, tmp_path / "run", **changes), package, oracle_python())

    assert any(difference.what == what for difference in found.differences)
    assert len({difference.key for difference in found.differences}) == 4
    assert all(str(difference).startswith(difference.key) for difference in found.differences)


def test_another_reading_of_ours_is_found_by_the_package(played, package, monkeypatch):
    """The package is really asked: with a game of ours that reads wrongly, store and ours may agree, it does not."""
    recordings = audits._recordings

    def flattered(plan, folder):
        for one in recordings(plan, folder):
            if one.cell.key == "uniform/QD/zero-shot":
                changed = one.sample.__class__(
                    **{f: getattr(one.sample, f) for f in one.sample.__slots__} | {"prompt": "?"}
                )
                one = Recording(one.row, one.cell, changed)
            yield one

    monkeypatch.setattr(audits, "_recordings", flattered)
    found = audit(played, package, oracle_python()).differences

    assert found and {d.key.rsplit("/", 1)[0] for d in found} == {"uniform/QD/zero-shot"}


def test_verdicts_of_every_kind_are_the_packages(judged, package):
    found = audit(judged, package, oracle_python())
    said = verdicts(judged).collect().filter(pl.col("judge").str.starts_with("careless"))

    assert (found.episodes, found.turns, found.verdicts) == (420, 420, 840)
    assert (found.differences, found.raised) == ((), ())
    assert list(found.lines()) == ["420 episodes, 420 turns, 840 verdicts: 0 differences"]
    assert said["aggregate"].null_count() > 10 and said["aggregate"].sum() > 50 and (said["attempts"] == 1).sum() > 50


FLIPPED = (
    pl.when(KEY.str.contains("ask-properly/CIT/reference-oeg/")).then(~pl.col("suggestion")).otherwise("suggestion")
)
SPOILED = {
    "a verdict": ({"verdicts_suggestion": FLIPPED}, "verdict of rule-judge/"),
    "a judge's text": (
        {"verdicts_text": pl.when(KEY.str.contains("guess-aloud/QD/hint-oeg/")).then(pl.lit("0,0,0,0,0")).otherwise("text")},
        "verdict of rule-judge/",
    ),
    "a picture": (
        {"turns_image": pl.when(KEY.str.contains("guess-aloud/COCO/")).then(pl.lit("x.jpg")).otherwise("image")}, "image",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_what_was_changed_after_judging_is_found(name, judged, package, tmp_path):
    changes, what = SPOILED[name]

    found = audit(copied(judged, tmp_path / "run", **changes), package, oracle_python())

    assert any(difference.what.startswith(what) for difference in found.differences)
    assert len({difference.key for difference in found.differences}) in (10, 30)


def test_another_wording_or_list_of_ours_is_found_by_the_package(judged, package, monkeypatch):
    monkeypatch.setattr(open_ended, "accepted_answers", lambda sample, reference: ("Move the blocks",))
    found = audit(judged, package, oracle_python()).differences

    assert {d.what for d in found if not d.what.startswith("verdict")} == {"accepted answers"}
    assert {d.key.split("/")[2] for d in found if d.what == "accepted answers"} == {"zero-shot-oeg", "hint-oeg"}


def test_what_another_data_folder_cannot_tell_is_no_clean_audit(judged, package, demo_data, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(demo_data, other)
    path = other / "ChangeIt_preprocessed.jsonl"
    path.write_text(path.read_text().replace('"prompt": "', '"prompt": "Now: '))
    found = audit(judged, package, oracle_python(), other)

    assert (found.differences, found.without_sample, found.clean) == ((), 2 * 3 * 10, False)
    assert "60 stored episodes are not compared" in "".join(found.lines()) and "--data" in "".join(found.lines())
    assert audit(judged, package, oracle_python()).clean


def test_mistakes_are_sentences(played, package, tmp_path):
    with pytest.raises(RunFolderError, match="holds no run"):
        audit(tmp_path, package, oracle_python())
    with pytest.raises(AuditError, match="has no folder proactivebench"):
        audit(played, tmp_path, oracle_python())
    with pytest.raises(AuditError, match="does not start, or is older than Python"):
        audit(played, package, str(tmp_path / "python"))
