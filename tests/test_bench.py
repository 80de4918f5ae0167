"""Every bench runs, at its smallest size, and a ratio is told only where the machine was idle."""

from importlib.util import find_spec

import pytest

from tests.bench.__main__ import BENCHES, main
from tests.bench.alternate import ALLOWED, Others, Row, alternated, ratio
from tests.oracle import oracle_python

NEEDS = {
    "steps": oracle_python() is not None,
    "sweep": oracle_python() is not None,
    "judge": find_spec("openai") is not None,
    "engine": find_spec("vllm") is not None,
    "spans": find_spec("vllm") is not None,
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BENCHES)
def test_it_runs_and_prints_its_table(name, capfd):
    assert main([name, "--small"]) == 0
    told = capfd.readouterr().out
    assert told.startswith("At the start: ") and "\nAt the end: " in told
    if NEEDS.get(name, True):
        rows = [line for line in told.splitlines() if line.startswith((f"| {name} | ", f"| {name}, "))]
        assert rows and all(float(line.split(" | ")[3].replace(",", "")) >= 0 for line in rows)
    else:
        assert f"{name}: left out, it needs" in told


def test_sides_are_run_in_turn_and_all_values_kept():
    order, values = [], iter(range(6))

    def side(name):
        def run():
            order.append(name)
            return {"s": next(values)}

        return run

    rows = alternated("x", {"a": side("a"), "b": side("b")}, 3, Others(seconds=0.0))
    assert order == ["a", "b"] * 3
    assert rows == [Row("x", "s", "a", (0, 2, 4)), Row("x", "s", "b", (1, 3, 5))]
    assert str(rows[0]) == "| x | s | a | 2 | 0 | 4 | 3 |"


def test_no_ratio_on_a_busy_machine():
    one, other = Row("x", "turns/s", "ours", (4.0, 6.0, 5.0)), Row("x", "turns/s", "theirs", (2.0, 2.0, 2.5))
    assert ratio(one, other, Others(shares=[0.01, ALLOWED, 0.9])) == (
        "x: ours / theirs, turns/s: 2.50 (2.00 to 3.00 over 3 rounds)"
    )
    told = ratio(one, other, Others(shares=[0.01, 0.46, 0.9]))
    assert told == "x: ours / theirs, turns/s: no ratio, other programs used 46% of the processors (10% is allowed)"


def test_there_is_no_ratio_to_nothing():
    """Cell after cell a cache smaller than a cell keeps no token."""
    told = ratio(Row("x", "%", "plan", (45.9,)), Row("x", "%", "cells", (0.0,)), Others(shares=[0.01]))
    assert told == "x: plan / cells, %: no ratio to 0"


@pytest.mark.parametrize(("typed", "said"), [(["nosuch"], "'nosuch'"), (["steps", "--rounds", "0"], "at least 1")])
def test_a_mistake_is_a_sentence(typed, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(typed)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_a_bench_that_fails_says_so_after_the_others(monkeypatch, capsys):
    monkeypatch.setitem(BENCHES, "steps", lambda bench, others: iter([str(bench.python("nosuch"))]))
    monkeypatch.setitem(BENCHES, "resume", lambda bench, others: iter(["a table"]))
    assert main(["steps", "resume", "--small"]) == 1
    told = capsys.readouterr().out
    assert "steps: failed with exit code 1" in told and "No module named tests.bench.nosuch" in told
    assert told.index("a table") > told.index("steps: failed")
