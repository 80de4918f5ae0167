"""The audit finds nothing in an honest folder, under every condition, and finds a changed reply, verdict, move or ending.

Open-ended answers are read by a judge who is often careless, so that every kind of verdict is there.
"""

import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest

from actors.engine.backend import Request
from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from envs.openended import accepted_answers
from envs.samples import lines_file
from envs.types import Mode
from orchestrator.audit import audit as audits
from orchestrator.audit.audit import Audit, Difference, audit, differences
from orchestrator.audit.package import PACKAGE, VERSION
from orchestrator.planning.named_by_user import plan_from_folder
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.conditions import CONDITIONS, VARIANTS
from tests.actors.scripted_backend import ScriptedBackend
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
def run_folder(demo_data, tmp_path_factory):
    """A run folder of three policies under every condition and variant, played without a cluster."""
    names = [name for name, condition in (CONDITIONS | VARIANTS).items() if not (condition.shots or condition.rules)]
    sweep = runs.sweep(demo_data, list(POLICIES), names, selection={"limit": 2})
    return runs.play_sweep(tmp_path_factory.mktemp("run") / "audited", sweep)


def misread(request: Request) -> str:
    """Reply as a judge who counts wrongly, does not close its thinking, writes no list at all, or is right."""
    situation = request.situation
    clear = situation.state.mode is Mode.REFERENCE
    return careless(Random(request.seed), len(accepted_answers(situation.sample, clear)))


@pytest.fixture(scope="module")
def judged_folder(demo_data, tmp_path_factory):
    """A run folder of open-ended answers, each read by the rule judge and by one who is careless."""
    conditions = ["zero-shot", "hint", "reference"]
    sweep = runs.sweep(
        demo_data, ["ask-properly", "guess-aloud"], conditions, protocol="oeg", judge={"model": "rule-judge"}
    )
    folder = runs.play_sweep(tmp_path_factory.mktemp("run") / "judged", sweep)
    runs.judge_answers(folder, sweep, sweep.judge, Baseline("rule-judge"))
    careless_model = sweep.judge.model.model_copy(update={"name": "careless"})
    return runs.judge_answers(
        folder, sweep, sweep.judge.model_copy(update={"model": careless_model}), ScriptedBackend(misread)
    )


@pytest.fixture(scope="module")
def dialogue_folder(demo_data, tmp_path_factory):
    """A run folder of open-ended episodes of several turns, some of whose requests are not possible."""
    sweep = runs.sweep(
        demo_data, ["oracle", "ask-properly", "guess-aloud"], ["zero-shot", "hint"], protocol="oeg-multi",
        judge={"model": "rule-judge"}, open_ended={"selection": {"limit": 4}},
    )  # fmt: skip
    impossible = ScriptedBackend(
        lambda request: ("Turn the lamp on.", "Please move the camera.", "Let us wait.")[request.seed % 3]
    )
    return runs.play_sweep(tmp_path_factory.mktemp("run") / "talked", sweep, backends={"guess-aloud": impossible})


def test_judged_turns_are_read_and_played_again(dialogue_folder, tmp_path, package):
    report = audit(dialogue_folder, package, oracle_python())

    assert report.clean and report.episodes == 3 * 2 * 7 * 4 and report.turns > report.episodes
    marks = pl.col("judged").str.replace(r"0(?:,[01])*$", "0")
    mirrored = pl.col("read_as").str.replace("left", "right")
    for name, column in (("judged", marks), ("read_as", mirrored), ("move", pl.lit(None, pl.String))):
        changed = copy_changed(dialogue_folder, tmp_path / name, **{f"turns_{name}": column})
        assert audit(changed, package, oracle_python()).differences, name


@pytest.fixture(scope="module")
def calls_folder(demo_data, tmp_path_factory):
    """A run folder of tool calls, malformed ones among them."""
    sweep = runs.sweep(
        demo_data, ["oracle", "uniform", "malformed-calls"], ["zero-shot", "hint", "reference"], protocol="tools",
        selection={"limit": 4},
    )  # fmt: skip
    return runs.play_sweep(tmp_path_factory.mktemp("run") / "called", sweep)


def test_calls_are_read_and_played_again(calls_folder, tmp_path, package):
    report = audit(calls_folder, package, oracle_python())

    assert report.clean and report.episodes == 3 * 3 * 7 * 4 and report.turns > report.episodes
    mirrored = {f"turns_{name}": pl.col(name).str.replace("left", "right") for name in ("reply", "read_as")}
    others = {"turns_move": pl.lit(None, pl.String), "episodes_unparsable": pl.lit(0, pl.Int32)}
    for name, column in (mirrored | others).items():
        changed = copy_changed(calls_folder, tmp_path / name, **{name: column})
        assert audit(changed, package, oracle_python()).differences, name


def copy_changed(run_folder: Path, target: Path, **changes: pl.Expr) -> Path:
    """The run folder with a changed column in one of its tables: ``turns_reply=...``."""
    for table in ("episodes", "turns", "verdicts"):
        (target / table).mkdir(parents=True)
        for part in (run_folder / table).glob("*.parquet"):
            columns = {name.removeprefix(f"{table}_"): e for name, e in changes.items() if name.startswith(table)}
            pl.read_parquet(part).with_columns(**columns).write_parquet(target / table / part.name)
    (target / "sweep.resolved.toml").write_bytes((run_folder / "sweep.resolved.toml").read_bytes())
    return target


def test_honest_folder_has_no_differences(run_folder, package):
    report = audit(run_folder, package, oracle_python())

    assert report.episodes == 606 and report.turns > report.episodes
    assert (report.differences, report.raised, report.verdicts) == ((), (), 0)
    assert list(report.lines())[-1].endswith("0 differences")


KEY, TURN = pl.col("key"), pl.col("turn")
CELL = KEY.str.starts_with("always-ask/ROD/zero-shot/")
ONE = CELL & (TURN == 2)
MOVED = KEY.str.starts_with("always-ask/VSOD/random-proactive/") & (TURN == 1)
TAMPERED = {
    "a sample": ({"episodes_sample_id": pl.when(CELL).then(-7).otherwise("sample_id")}, "sample_id"),
    "a reply": ({"turns_reply": pl.when(ONE).then(pl.lit("I give up")).otherwise("reply")}, "turn 2, option"),
    "a picture": ({"turns_image": pl.when(ONE).then(pl.lit("x.jpg")).otherwise("image")}, "turn 2, image"),
    "a move": (
        {"turns_move": pl.when(MOVED).then(pl.when(pl.col("move") == "wait").then(pl.lit("rewind")).otherwise(pl.lit("wait")))
         .otherwise("move")}, "turn 1, move",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found(name, run_folder, package, tmp_path):
    changes, what = TAMPERED[name]

    report = audit(copy_changed(run_folder, tmp_path / "run", **changes), package, oracle_python())

    assert any(difference.what == what for difference in report.differences)
    assert len({difference.key for difference in report.differences}) == 2
    assert all(str(difference).startswith(difference.key) for difference in report.differences)


def test_wrong_reading_of_ours_is_found_by_package(run_folder, package, monkeypatch):
    """The package is really called: if our game reads wrongly, store and replay may agree, but the package does not."""
    recordings = audits._recordings

    def change_prompt(plan, folder, cells):
        for recording in recordings(plan, folder, cells):
            is_changed = recording.cell.key == "uniform/QD/zero-shot"
            yield replace(recording, sample=replace(recording.sample, prompt="?")) if is_changed else recording

    monkeypatch.setattr(audits, "_recordings", change_prompt)
    differences = audit(run_folder, package, oracle_python()).differences

    assert differences and {d.key.rsplit("/", 1)[0] for d in differences} == {"uniform/QD/zero-shot"}


def test_verdicts_match_package(judged_folder, package):
    report = audit(judged_folder, package, oracle_python())
    careless_verdicts = verdicts(judged_folder).collect().filter(pl.col("judge").str.starts_with("careless"))

    assert (report.episodes, report.turns, report.verdicts) == (420, 420, 840)
    assert (report.differences, report.raised) == ((), ())
    assert list(report.lines()) == ["420 episodes, 420 turns, 840 verdicts: 0 differences"]
    assert careless_verdicts["aggregate"].null_count() > 10 and careless_verdicts["aggregate"].sum() > 50
    assert (careless_verdicts["attempts"] == 1).sum() > 50


FLIPPED = (
    pl.when(KEY.str.contains("ask-properly/CIT/reference-oeg/")).then(~pl.col("suggestion")).otherwise("suggestion")
)
GUESSED = KEY.str.contains("guess-aloud/QD/hint-oeg/")
SPOILED = {
    "no text": ({"verdicts_text": pl.when(~GUESSED).then(pl.col("text"))}, "verdict of rule-judge/"),
    "a verdict": ({"verdicts_suggestion": FLIPPED}, "verdict of rule-judge/"),
    "a judge's text": (
        {"verdicts_text": pl.when(GUESSED).then(pl.lit("0,0,0,0,0")).otherwise("text")},
        "verdict of rule-judge/",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_tampering_after_judging_is_found(name, judged_folder, package, tmp_path):
    changes, what = SPOILED[name]

    report = audit(copy_changed(judged_folder, tmp_path / "run", **changes), package, oracle_python())

    assert any(difference.what.startswith(what) for difference in report.differences)
    assert len({difference.key for difference in report.differences}) == 10


def test_wrong_wording_of_ours_is_found_by_package(judged_folder, package, monkeypatch):
    monkeypatch.setattr(audits, "accepted_answers", lambda sample, reference: ("Move the blocks",))
    differences = audit(judged_folder, package, oracle_python()).differences

    assert {d.what for d in differences if not d.what.startswith("verdict")} == {"accepted answers"}
    assert {d.key.split("/")[2] for d in differences if d.what == "accepted answers"} == {"zero-shot-oeg", "hint-oeg"}


def test_changed_data_folder_is_no_clean_audit(judged_folder, package, demo_data, tmp_path):
    other_data = tmp_path / "other"
    shutil.copytree(demo_data, other_data)
    path = other_data / "ChangeIt_preprocessed.jsonl"
    path.write_text(path.read_text().replace('"prompt": "', '"prompt": "Now: '))
    report = audit(judged_folder, package, oracle_python(), other_data)

    assert (report.differences, report.without_sample, report.clean) == ((), 2 * 3 * 10, False)
    assert "60 stored episodes are not compared" in "".join(report.lines()) and "--data" in "".join(report.lines())
    assert audit(judged_folder, package, oracle_python()).clean


def test_a_run_without_the_bad_lines_of_its_data_is_compared(demo_data, package, tmp_path):
    path = lines_file(shutil.copytree(demo_data, tmp_path / "data"), "ROD")
    good = path.read_bytes()
    path.write_bytes(b'{\n[]\n{"id": [1]}\n\xff\n' + good + good.replace(b'"prompt": "', b'"prompt": "Now: '))
    sweep = runs.sweep(tmp_path / "data", ["uniform"], ["hint"], scenarios=["ROD"], skip_bad=True)
    report = audit(runs.play_sweep(tmp_path / "run", sweep), package, oracle_python())
    assert (report.episodes, report.clean, report.raised) == (10, True, ())


def test_the_package_is_fetched_and_found_also_in_a_safe_path(judged_folder, package, tmp_path, monkeypatch):
    wheels, info = tmp_path / "wheels", f"{PACKAGE}-{VERSION}.dist-info"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / f"{PACKAGE}-{VERSION}-py3-none-any.whl", "w") as wheel:
        for path in (package / PACKAGE).rglob("*.py"):
            wheel.write(path, path.relative_to(package))
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\nRequires-Python: >=3.12\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", "/dev/null/shared")  # others may write there
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(RunFolderError, match="--install could not fetch proactivebench"):
        audit(judged_folder, install=True)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    (tmp_path / f"cache/proactive-sweep/{PACKAGE}-{VERSION}/{PACKAGE}").mkdir(parents=True)  # left by an earlier Ctrl-C
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert audit(judged_folder, install=True).clean and audit(judged_folder, package, oracle_python()).clean


def test_mistakes_are_sentences(run_folder, package, tmp_path):
    with pytest.raises(RunFolderError, match="holds no run"):
        audit(tmp_path, package, oracle_python())
    with pytest.raises(RunFolderError, match="has no folder proactivebench"):
        audit(run_folder, tmp_path, oracle_python())
    with pytest.raises(RunFolderError, match=r"cannot import proactivebench, .* --python /path"):
        audit(run_folder, package, str(tmp_path / "python"))


def test_lines_name_what_was_compared_and_what_was_not():
    difference = Difference("k", "turn 0", 1, 2, 3)
    assert Audit(1_000, 2_000, 0, (), ()).clean and not Audit(1, 1, 0, (difference,), ()).clean
    assert not Audit(1, 1, 0, (), (), 3).clean
    lines = list(Audit(1_000, 2_000, 3_000, (difference,), ("k: the package raises KeyError",), 1_004, 5).lines())
    assert lines[:2] == ["k: turn 0: stored 1, ours 2, package 3", "k: the package raises KeyError"]
    assert ["1 episodes (docs" in lines[2], "1,004 stored" in lines[3], "5 episodes are not" in lines[4]] == [True] * 3
    assert lines[5:] == ["1,000 episodes, 2,000 turns, 3,000 verdicts: 1 differences"]
    assert len(list(Audit(1, 1, 0, (difference,) * 500, ()).lines())) == 21, "twenty differences are printed"


@pytest.fixture(scope="module")
def recording(run_folder):
    """A stored episode of several turns, and the package's answer that agrees with our replay of it."""
    plan = plan_from_folder(run_folder, stored_sweep(run_folder))
    cells = {cell.key: cell for cell in plan.cells if cell.key == "always-ask/ROD/hint"}
    episode = next(iter(audits._recordings(plan, run_folder, cells)))
    nothing = {"turns": [None] * len(episode.row["reply"]), "ending": episode.row["ending"], "raised": None}
    return episode, {**nothing, "turns": [difference.ours for difference in differences(episode, nothing)]}


def test_what_the_package_plays_otherwise_is_named(recording):
    episode, package = recording
    assert len(package["turns"]) > 2 and not list(differences(episode, package))
    played = [*package["turns"][:-1], [*package["turns"][-1][:-1], "other"]]
    (difference,) = differences(episode, {**package, "turns": played})
    assert difference.what == f"turn {len(played) - 1}" and difference.package[-1] == "other"
    (difference,) = differences(episode, {**package, "ending": "somehow"})
    assert (difference.what, difference.package) == ("ending", "somehow")
    broken = {"turns": played[:1], "ending": "", "raised": "KeyError"}
    assert not list(differences(episode, broken)), "where the package raises, the store alone is compared"
    missing = list(differences(episode, {**package, "turns": played[:1]}))
    assert [difference.what for difference in missing] == [f"turn {number}" for number in range(1, len(played))]


@pytest.mark.parametrize("name", ["correct", *audits.COUNTED])
def test_a_changed_count_is_named(recording, name):
    episode, package = recording
    row = {**episode.row, name: episode.row[name] + 1}
    assert [difference.what for difference in differences(replace(episode, row=row), package)] == [name]


@pytest.mark.parametrize(
    ("stored", "turns", "whats"),
    [("failed", 0, ["ending"]), ("overflow", 1, ["ending"]), ("truncated", 0, ["ending"]), ("limit", 0, [])],
)
def test_an_ending_is_that_of_game_and_package(recording, stored, turns, whats):
    """Errors and overflows have no ending in the game; an overflow has one more turn, without a reply."""
    episode, package = recording
    row = {**episode.row, "ending": stored, "turns": episode.row["turns"] + turns}
    assert [difference.what for difference in differences(replace(episode, row=row), package)] == whats
