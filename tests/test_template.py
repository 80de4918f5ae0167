"""The package that `init --from package` writes installs beside the product and plays; mistakes are named in a sentence."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import sem, t

import envs
from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from envs.errors import RunFolderError
from envs.installed import PackageError, find_offer
from orchestrator.cli.listing import KINDS
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.metrics import score
from orchestrator.report.scores.package_measures import join_package_measures, package_measures
from orchestrator.report.tables.all_tables import write_tables
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.run_folder import claim
from orchestrator.storage.status import read_status
from sweeps.load import SweepError, build, load
from sweeps.packages import RESULT_COLUMNS
from tests.conftest import ENVIRONMENT, Cli
from tests.orchestrator.report import runs

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "proactive_sweep/template"
SECTIONS = {"scenario": "scenarios", "policy": "policies", "measure": "measures"}


def install(source, into):
    """Install a package as pip does, into a folder of its own."""
    copy = shutil.copytree(source, into.with_name(f"{into.name}-source"))
    flags = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index")
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(into), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return into


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return install(TEMPLATE, tmp_path_factory.mktemp("installed") / "site")


@pytest.fixture(scope="module")
def data(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dark") / "data"
    command = [sys.executable, "-m", "proactive_dark.draw", str(folder)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(site)}, cwd=site, check=True, timeout=60)
    return folder


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Remove the modules and scenarios of a test's package afterwards."""
    modules_before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(modules_before):
        if name.partition(".")[0] in ("proactive_dark", "proactive_other", "own"):
            del sys.modules[name]
    envs._load_scenario.cache_clear()


def write_package(folder, kind, target, name="own-thing", module="", package="own-package"):
    """Write a package that offers one thing, as an installer leaves it: metadata, and a module ``own``."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[proactive_sweep.{SECTIONS[kind]}]\n{name} = {target}\n")
    (folder / "own.py").write_text(module)
    return folder


def dark_sweep(data, **fields):
    return runs.sweep(data, ["oracle", "ask-once"], ["zero-shot"], scenarios=["DARK"], **fields)


# -- the template ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_template_tests_pass_when_installed(site, tmp_path):
    own = shutil.copytree(TEMPLATE, tmp_path / "own")
    environment = {**os.environ, "PYTHONPATH": f"{site}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(own / "tests")]
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=200)

    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_a_sweep_plays_it_on_ray(site, data, tmp_path):
    """On a cluster of its own, whose workers find the package as the driver does."""
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{site}:{ROOT}", "PYTHONUNBUFFERED": "1"}
    cli = Cli({name: value for name, value in environment.items() if name != "RAY_ADDRESS"})
    shutil.copy(TEMPLATE / "sweep.toml", tmp_path / "sweep.toml")
    shutil.copytree(data, tmp_path / "data")
    done = cli.run("run", tmp_path / "sweep.toml", "--output", tmp_path / "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "asked-and-right" in done.stdout

    rows = {row["cell"]: row for row in json.loads((tmp_path / "run/results.json").read_text())}
    assert len(rows) == 9 and rows["oracle/DARK/zero-shot"]["asked-and-right"] == 100.0
    assert rows["ask-once/DARK/zero-shot"]["ps"] == 1.0 and rows["guess/DARK/hint"]["asked-and-right"] == 0.0
    assert read_status(tmp_path / "run")["packages"]["proactive-dark"] == "0.1.0"
    again = cli.run("plan", tmp_path / "sweep.toml", "--output", tmp_path / "run")
    assert "108 episodes, 108 done" in again.stdout


def test_ls_shows_each_with_its_package(site, monkeypatch):
    monkeypatch.syspath_prepend(site)
    kinds = {
        "scenarios": ("DARK", "package"),
        "measures": ("asked-and-right", "package"),
        "models": ("ask-once", "note"),
    }

    for kind, (name, column) in kinds.items():
        assert {row["name"]: row[column] for row in KINDS[kind]()}[name] == "proactive-dark 0.1.0"


# -- keys --------------------------------------------------------------------------------------------------------------
def test_keys_change_only_with_package_files(site, data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(site)
    first = build_plan(dark_sweep(data))
    before = list(first.all_keys())
    identity = find_offer("scenario", "DARK").identity
    assert identity.startswith("proactive-dark@") and first.cells[0].package == identity

    other_site = shutil.copytree(site, tmp_path / "site")
    (other_site / "proactive_dark/__pycache__").mkdir(exist_ok=True)
    (other_site / "proactive_dark/__pycache__/more.pyc").write_bytes(b"compiled")
    monkeypatch.syspath_prepend(other_site)
    forget()
    assert list(build_plan(dark_sweep(data)).all_keys()) == before

    with (other_site / "proactive_dark/scenario.py").open("a") as file:
        file.write("# changed\n")
    changed = build_plan(dark_sweep(data))
    assert not set(changed.all_keys()) & set(before)
    runs.play_sweep(tmp_path / "run", dark_sweep(data, measures=["asked-and-right"]), only=1)
    monkeypatch.syspath_prepend(site)
    forget()
    with (
        pytest.raises(RunFolderError, match=r"packages.DARK was .*proactive-dark@"),
        claim(tmp_path / "run", dark_sweep(data)),
    ):
        pass
    with pytest.raises(PackageError, match="install the same package on every node"):
        EpisodeRunner(changed, {}, 1)
    with pytest.raises(PackageError, match="install the same package on every node"):
        Baseline("ask-once", "proactive-dark@0000000000000000")


def forget():
    """Forget the package, as a new process would."""
    envs._load_scenario.cache_clear()
    for name in [name for name in sys.modules if name.startswith("proactive_dark")]:
        del sys.modules[name]


def test_the_papers_keys_are_as_they_were_with_a_package_installed(site, demo_data, monkeypatch):
    before = list(build_plan(runs.sweep(demo_data, ["uniform"], ["zero-shot", "random-proactive"])).all_keys())
    monkeypatch.syspath_prepend(site)

    assert list(build_plan(runs.sweep(demo_data, ["uniform"], ["zero-shot", "random-proactive"])).all_keys()) == before


# -- measures ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def run(site, data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(site)
    return runs.play_sweep(tmp_path / "run", dark_sweep(data, measures=["asked-and-right"]))


def test_a_measure_stands_in_rows_and_tables_with_its_interval_and_count(run):
    report = read_run(run)
    row = report.rows.filter(model="ask-once").row(0, named=True)
    right = report.episodes.filter(model="ask-once")["correct"].sum()

    assert row["asked-and-right"] == pytest.approx(100 * right / 12) and row["asked-and-right_n"] == 12
    assert row["asked-and-right_low"] == pytest.approx(row["acc_low"], abs=1e-9), (
        "a share has the interval of accuracies"
    )
    write_tables(report)
    table = (run / "tables/measure-asked-and-right.md").read_text()
    assert (
        "| ask-once, zero-shot | " in table
        and "asked-and-right" in (run / "tables/measure-asked-and-right.csv").read_text()
    )


def test_a_mean_of_any_value_has_students_interval(run, tmp_path, monkeypatch):
    module = """
import polars as pl
def squared(episodes, turns):
    return turns.group_by("key").agg(value=pl.col("image").last().str.extract(r"/([0-9]{4})/").cast(int) ** 2)
"""
    monkeypatch.syspath_prepend(write_package(tmp_path / "site", "measure", "own:squared", "squared", module))
    own, failed = package_measures(["squared"], episodes(run), turns(run))
    assert not failed

    squares = [number**2 for number in range(12)]
    low, high = t.interval(0.95, 11, sum(squares) / 12, sem(squares))
    row = own.filter(pl.col("cell").str.starts_with("oracle")).row(0, named=True)
    actual = [row[name] for name in ("squared", "squared_low", "squared_high", "squared_n")]
    assert actual == pytest.approx([sum(squares) / 12, low, high, 12])


AS_KEY = "import polars as pl\ndef m(episodes, turns): return "
WRONG_MEASURES = {
    "def m(episodes, turns): 1 / 0": r"the measure 'm' failed \(ZeroDivisionError: division by zero\); it is left out",
    "def m(episodes, turns): return 3": "it returned a int, not a polars frame with the columns key and value",
    "def m(episodes, turns): return episodes.select('key')": r"the measure 'm' failed \(ColumnNotFoundError",
    f"{AS_KEY}episodes.select('key', value=pl.lit(float('nan')))": "one row per key with a finite number",
    f"{AS_KEY}pl.concat([episodes, episodes]).select('key', value=pl.lit(1))": "one row per key with a finite number",
}


@pytest.mark.parametrize("module", WRONG_MEASURES)
def test_a_measure_that_fails_is_left_out_with_a_sentence(run, tmp_path, monkeypatch, module):
    monkeypatch.syspath_prepend(write_package(tmp_path / "site", "measure", "own:m", "m", module))
    own, (failed,) = package_measures(["m"], episodes(run), turns(run))
    rows = join_package_measures(score(episodes(run), read_run(run).planned), own)

    assert re.search(WRONG_MEASURES[module], failed)
    assert "m" not in rows.columns and rows["acc"].null_count() == 0


def test_a_report_without_the_package_says_what_is_missing(run, monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site" not in Path(path).name or "packages" in path])
    forget()
    notes = " ".join(read_run(run).notes)

    assert "there is no scenario 'DARK' here: its package is not installed" in notes
    assert "there is no measure 'asked-and-right' here" in notes
    assert len(write_tables(read_run(run))) > 10


def test_no_measure_may_have_the_name_of_a_column(run):
    own = {"asked-and-right", "asked-and-right_n", "asked-and-right_low", "asked-and-right_high"}
    columns = {f"{name}{end}" for name in RESULT_COLUMNS for end in ("", "_low", "_high")}
    assert set(read_run(run).rows.columns) - own <= columns


# -- what is wrong with a package --------------------------------------------------------------------------------------
GAME = "from envs.scenarios import QuickDraw\nclass Game(QuickDraw):\n    name, stem = 'own-thing', 'Own'\n"


@pytest.mark.parametrize(
    ("kind", "target", "module", "name", "message"),
    [
        ("scenario", "own:Game", "import nowhere_to_be_found", "own-thing", "cannot be imported from own:Game (ModuleNotFound"),
        ("policy", "own:p", "1 / 0", "own-thing", "cannot be imported from own:p (ZeroDivisionError"),
        ("scenario", "own:Game", GAME, "ROD", "has a name that is taken here"),
        ("scenario", "own:Game", GAME, "QuickDraw", "has a name that is taken here"),
        ("policy", "own:p", "", "oracle", "has a name that is taken here"),
        ("policy", "own:p", "", "qwen2.5-vl-7b", "has a name that is taken here"),
        ("measure", "own:m", "", "acc", "has a name that is taken here"),
        ("policy", "own:p", "", "../p", "needs a name of letters, digits, dots, dashes"),
        ("measure", "own:M", "class M: pass", "own-thing", "is the class M; a measure is a function"),
    ],
)  # fmt: skip
def test_a_problem_of_a_package_is_one_sentence_of_the_sweep(
    kind, target, module, name, message, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(write_package(tmp_path, kind, target, name, module))
    key = {"scenario": "scenarios", "policy": "models", "measure": "measures"}[kind]

    with pytest.raises(SweepError, match=rf"^mine\.toml: the .*{re.escape(message)}"):
        build({"data": "data", "models": ["uniform"], "scenarios": ["QD"], key: [name]}, "mine.toml")


def test_two_packages_of_one_name_are_refused_whatever_is_played(tmp_path, monkeypatch):
    for package in ("own-package", "other-package"):
        monkeypatch.syspath_prepend(write_package(tmp_path / package, "policy", "own:p", package=package))

    with pytest.raises(SweepError, match=r"the policy 'own-thing' .* has the name of one of (own|other)-package"):
        load(ROOT / "sweeps/baselines.toml")


def test_a_broken_package_stops_nobody_who_does_not_use_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(write_package(tmp_path, "scenario", "own:Game", module="1 / 0"))
    assert len(load(ROOT / "sweeps/baselines.toml").cells()) > 0
    assert "cannot be imported" in {row["name"]: row["hint"] for row in KINDS["scenarios"]()}["own-thing"]


def test_an_average_with_another_scenario_is_not_the_papers(site, data, demo_data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(site)
    both = shutil.copytree(demo_data, tmp_path / "both")
    shutil.copytree(data, both, dirs_exist_ok=True)
    names = ["ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "DARK"]
    folder = runs.play_sweep(
        tmp_path / "run", runs.sweep(both, ["oracle"], ["zero-shot"], scenarios=names, selection={"limit": 1})
    )
    write_tables(read_run(folder))

    head = (folder / "tables/main.md").read_text().splitlines()[2]
    assert head == "| model | ROD | VSOD | MVP-N | IN-C | QD | CIT | DARK | avg of 7 |"
