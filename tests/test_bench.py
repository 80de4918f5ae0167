"""Every bench runs, at its smallest size, and a ratio is told only where the machine was idle."""

import ast
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bench.__main__ import BENCHES, main
from tests.bench.alternate import ALLOWED, Others, Row, ratio, run_alternately
from tests.bench.mutants import list_mutants
from tests.bench.planted import TABLES, print_planted
from tests.oracle import oracle_python

NEEDS = {"sweep": oracle_python() is not None, "engine": find_spec("vllm") is not None}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BENCHES)
def test_bench_runs_and_prints_its_table(name, capfd):
    assert main([name, "--small"]) == 0
    output = capfd.readouterr().out
    assert output.startswith("At the start: ") and "\nAt the end: " in output
    if NEEDS.get(name, True):
        rows = [line for line in output.splitlines() if line.startswith((f"| {name} | ", f"| {name}, "))]
        assert rows and all(float(line.split(" | ")[3].replace(",", "")) >= 0 for line in rows)
    else:
        assert f"{name}: left out, it needs" in output


def test_sides_are_run_in_turn_and_all_values_kept():
    order, values = [], iter(range(6))

    def run(name):
        order.append(name)
        return {"s": next(values)}

    rows = run_alternately("x", {name: partial(run, name) for name in "ab"}, 3, Others(seconds=0.0))
    assert order == ["a", "b"] * 3
    assert rows == [Row("x", "s", "a", (0, 2, 4)), Row("x", "s", "b", (1, 3, 5))]
    assert str(rows[0]) == "| x | s | a | 2 | 0 | 4 | 3 |"


def test_no_ratio_on_a_busy_machine():
    ours, published = Row("x", "turns/s", "ours", (4.0, 6.0, 5.0)), Row("x", "turns/s", "theirs", (2.0, 2.0, 2.5))
    assert ratio(ours, published, Others(shares=[0.01, ALLOWED, 0.9])) == (
        "x: ours / theirs, turns/s: 2.50 (2.00 to 3.00 over 3 rounds)"
    )
    sentence = ratio(ours, published, Others(shares=[0.01, 0.46, 0.9]))
    assert sentence == "x: ours / theirs, turns/s: no ratio, other programs used 46% of the processors (10% is allowed)"


@pytest.mark.parametrize(
    ("arguments", "message"), [(["nosuch"], "'nosuch'"), (["sweep", "--rounds", "0"], "at least 1")]
)
def test_a_mistake_is_a_sentence(arguments, message, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2 and message in capsys.readouterr().err


def test_a_bench_that_fails_says_so_after_the_others(monkeypatch, capsys):
    monkeypatch.setitem(BENCHES, "sweep", lambda bench, others: iter([str(bench.python("nosuch"))]))
    monkeypatch.setitem(BENCHES, "resume", lambda bench, others: iter(["a table"]))
    assert main(["sweep", "resume", "--small"]) == 1
    output = capsys.readouterr().out
    assert "sweep: failed with exit code 1" in output and "No module named tests.bench.nosuch" in output
    assert output.index("a table") > output.index("sweep: failed")


@pytest.mark.long
def test_planted_truths_are_found_with_few_runs(capsys):
    assert print_planted(runs=8, seed=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 2, 8 runs" and len(lines) > 3 * len(TABLES)


def test_each_mutant_changes_one_expression_and_no_message():
    path = Path("envs/errors.py")
    mutants = list(list_mutants(path))

    assert mutants and not any("raise" in mutant.change for mutant in mutants)
    assert ast.unparse(ast.parse(path.read_text())) not in {mutant.source for mutant in mutants}
