"""The phases of an engine's start are read from what vLLM 0.32 writes."""

from dataclasses import astuple

import pytest

from actors.engine.start_phases import StartPhases, parse_phases, read_phases

OUTPUT = """\
(EngineCore pid=15963) INFO 11-26 07:06:20 [weight_utils.py:532] Time spent downloading weights for org/model: 8.250000 seconds
(Worker_PP0 pid=28467) INFO 11-26 07:12:38 [default_loader.py:501] Loading weights took 2.04 seconds
(Worker_PP1 pid=28472) INFO 11-26 07:12:38 [default_loader.py:501] Loading weights took 2.50 seconds
"""
COMPILED = (
    "(EngineCore pid=27087) INFO 11-26 07:12:47 [core.py:386] init engine (profile, create kv cache, warmup model) took 9.53 s"
    " (compilation: 4.25 s — language_model: 4.00 s, encoder: 0.25 s)\n"
)
EAGER = "(EngineCore pid=27087) INFO [core.py:402] init engine (profile, create kv cache, warmup model) took 2.53 s\n"


@pytest.mark.parametrize(("last_line", "compiled", "warm"), [(COMPILED, 4.25, 15.0), (EAGER, 0.0, 19.25)])
def test_phases_sum_to_the_load_and_the_slowest_process_counts(last_line, compiled, warm):
    phases = parse_phases(OUTPUT + last_line, 30.0)

    assert phases == StartPhases(8.25, 2.5, compiled, warm) and sum(astuple(phases)) == 30.0
    assert phases.cached == 2.5 + warm


def test_output_without_reading_has_no_phases(tmp_path):
    file = tmp_path / "worker.out"
    file.write_text(COMPILED)
    assert read_phases([str(file), str(tmp_path / "absent")], 30.0) is None
    file.write_text(OUTPUT)
    assert read_phases([str(file), str(tmp_path / "absent")], 30.0) == StartPhases(8.25, 2.5, 0.0, 19.25)
    assert parse_phases(OUTPUT, 1.0) == StartPhases(8.25, 2.5, 0.0, 0.0), "never negative"


def test_phases_are_scaled_one_by_one():
    phases = StartPhases(1.0, 2.0, 3.0, 4.0)

    assert phases.scaled(0.5) == StartPhases(0.5, 1.0, 1.5, 2.0) and phases.cached == 6.0
    assert StartPhases() == StartPhases(0.0, 0.0, 0.0, 0.0)


def test_the_longest_of_several_processes_counts_and_files_are_read_one_after_the_other(tmp_path):
    """A line that two files share would be in none of them."""
    files = [tmp_path / name for name in ("first", "second", "absent")]
    files[0].write_text("Loading weights took 2.5 seconds\nLoading weights took 1.5 sec")
    files[1].write_text("onds\ninit engine (profile) took 9.0 s (compilation: 4.0 s)\n")

    assert read_phases(map(str, files), 10.0) == StartPhases(0.0, 2.5, 4.0, 3.5)
    assert read_phases([str(files[2])], 10.0) is None and parse_phases("", 10.0) is None
    joined = [tmp_path / "a", tmp_path / "b"]
    joined[0].write_text("Loading weights took")
    joined[1].write_text(" 2.5 seconds")
    assert read_phases(map(str, joined), 10.0) is None
