"""``plan --gpus``: rates from the table and from measured runs, pending work, and the printed bound."""

import re
from pathlib import Path

import pytest

from orchestrator.planning.build_plan import build_plan
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput
from orchestrator.scheduling.forecast.forecast import estimate_demands, forecast_lines, pending_cells, published_cells
from orchestrator.scheduling.forecast.throughput import count_work, replica_rates
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import checksums
from sweeps.conditions import CONDITIONS
from sweeps.load import SweepError, load
from sweeps.spec import ModelSpec
from tests.orchestrator.report import runs

PAPER = Path("sweeps/paper.toml")
MODEL = "qwen2.5-vl-7b"


def observed_schedule(*names, episodes=100_000, busy=50_000.0):
    """Return a scheduler whose groups have played."""
    schedule = Scheduler({name: range(10) for name in names}, {name: Demand(0, 1) for name in names}, 0, 1)
    for group in schedule.groups.values():
        group.played, group.busy_s = episodes, busy
    return schedule


def observe(folder, wanted, schedule, gpu_type="H200"):
    """Record what a schedule has measured, all of whose episodes were played."""
    folder.mkdir(exist_ok=True)
    plan = build_plan(wanted)
    throughput.write_observed(folder, schedule, gpu_type, plan, plan.pending(()))


def test_rates_of_real_runs_win_over_the_table_on_the_same_gpu(demo_data, tmp_path):
    wanted = runs.sweep(demo_data, [MODEL], ["zero-shot"])
    for _ in range(2):
        observe(tmp_path, wanted, observed_schedule(MODEL))
    observed = throughput.read_observed([tmp_path], "h200")[MODEL]
    zero_shot, examples = (throughput.mean_pictures(CONDITIONS[name]) for name in ("zero-shot", "icl-3"))
    rate, longer = (
        throughput.replica_rate(wanted.models[0], "h200", "models", observed, n) for n in (zero_shot, examples)
    )

    assert (observed.episodes, observed.busy) == (200_000, 100_000.0)
    assert rate.measured and rate.episodes == pytest.approx(2.0, rel=0.06)
    assert longer.episodes == pytest.approx(rate.episodes * zero_shot / examples), "pictures are what takes time"
    assert throughput.read_observed([tmp_path], "a100") == {}
    for damaged in ('{"gpu": "h200", "models": [1]}', '{"h200": {"models": {"m": {"episodes": 1, "busy": -600}}}}'):
        (tmp_path / throughput.OBSERVED_FILE).write_text(damaged)
        assert throughput.read_observed([tmp_path], "h200") == {}, "a damaged file adds nothing"


def test_a_run_records_only_the_kind_of_work_that_it_played(demo_data, tmp_path):
    kinds = (throughput.EPISODES, throughput.ANSWERS, throughput.VERDICTS)
    recorded = []
    for protocols in (["oeg"], ["mcqa"], ["mcqa", "oeg"]):
        folder = tmp_path / "-".join(protocols)
        observe(
            folder, runs.sweep(demo_data, ["guess"], ["hint"], protocol=protocols), observed_schedule("m", "judge:j")
        )
        recorded.append([list(throughput.read_observed([folder], "h200", kind)) for kind in kinds])

    assert recorded == [[[], ["m"], ["j"]], [["m"], [], ["j"]], [[], [], ["j"]]]


def test_long_answers_take_their_tokens_and_one_picture():
    models = {model.name: model for model in load(PAPER, []).models}
    for name in (MODEL, "qwen2.5-vl-72b", "llava-next-vicuna-7b"):
        picture = throughput.replica_rate(models[name], "h200").episodes
        tokens = 150 * models[name].parameters / (60_000 * models[name].gpus)
        answers = throughput.replica_rate(models[name], "h200", throughput.ANSWERS).episodes
        assert 1 / answers == pytest.approx(1 / picture + tokens)


def test_the_paper_has_its_published_episodes_and_a_rate_for_every_model_on_gpus():
    sweep = load(PAPER, [])
    cells = published_cells(sweep)
    rates = replica_rates(sweep, "H200", [], cells)

    assert set(rates) == {model.name for model in sweep.models if model.gpus}
    assert count_work(sweep, cells).total() == 794_166
    with pytest.raises(SweepError, match="abacus"):
        replica_rates(sweep, "abacus", [], cells)


def test_the_front_end_limits_the_rate_on_any_gpu():
    """On a GPU twice as fast, the smallest InternVL3 waits for its front end."""
    sweep = load(PAPER, ['models=["internvl3-1b", "llava-1.5-7b"]', "conditions=['reference']", "only=[]"])
    cells = published_cells(sweep)
    slower, faster = (replica_rates(sweep, kind, [], cells)["internvl3-1b"] for kind in ("h200", "b200"))

    assert slower.episodes < faster.episodes < 2 * slower.episodes


def test_the_scheduler_starts_with_the_rates_of_the_forecast():
    sweep = load(PAPER, ["conditions=['hint']", "only=[]"]).model_copy(update={"output": "nowhere/run"})
    rate = replica_rates(sweep, "h200", [], published_cells(sweep))[MODEL].episodes

    assert estimate_demands({MODEL: Demand(0, 1)}, sweep, "H200-141GB")[MODEL].rate == rate
    assert estimate_demands({MODEL: Demand(0, 1)}, sweep, "abacus")[MODEL].rate is None


def test_the_lines_name_hours_sources_and_what_is_not_counted(tmp_path):
    folders = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    sweep = load(PAPER, [f'models=["{MODEL}", "llava-ov-72b", "gpt-4.1"]']).model_copy(update=folders)
    text = "\n".join(forecast_lines(sweep, 8, "h200"))

    hours, gpu_hours = (float(re.search(rf"{words} +([0-9.]+)", text)[1]) for words in ("at least", "GPU-hours"))
    assert hours > 1 and gpu_hours == pytest.approx(8 * hours, rel=0.01)
    assert all(words in text for words in ("factor of 1.5", "without GPU: gpt-4.1", "published benchmark"))
    assert "left out: llava-ov-72b needs 4 GPUs" in forecast_lines(sweep, 1, "h200")


def test_a_judge_reads_every_answer(tmp_path):
    folders = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    sweep = load(Path("sweeps/paper-oeg.toml"), []).model_copy(update=folders)
    counts = count_work(sweep, published_cells(sweep))

    assert counts["judge:qwen3-8b"] == 27_720, "answers of services, too"
    on_gpus = sum(counts[model.name] for model in sweep.models if model.gpus)
    assert f"{27_720 + on_gpus:,} episodes and verdicts on 8 H200" in forecast_lines(sweep, 8, "h200")


def test_stored_episodes_are_not_counted(demo_data, tmp_path):
    wanted = runs.sweep(
        demo_data, ["refuse", "uniform"], ["zero-shot"], protocol=["mcqa", "oeg"], judge={"model": "rule-judge"},
        selection={"limit": 2}, open_ended={"selection": {"limit": 5}},
    ).model_copy(update={"output": str(tmp_path / "run")})  # fmt: skip
    planned = count_work(wanted, pending_cells(wanted, build_plan(wanted)))["builtin"]
    runs.play_sweep(tmp_path / "run", wanted, only=planned - 10)

    assert count_work(wanted, pending_cells(wanted, build_plan(wanted)))["builtin"] == 10
    with pytest.raises(SweepError, match="no model of this sweep needs a GPU"):
        forecast_lines(load(PAPER, ['models=["gpt-4.1"]', "only=[]"]), 8, "h200")


def test_rates_are_added_to_those_of_the_same_kind_of_gpu(tmp_path):
    file, rate = tmp_path / throughput.OBSERVED_FILE, throughput.ObservedRate(4, 2.0)
    checksums.write(file, b'{"gpu": "h100", "models": {"a": {"episodes": 10, "busy": 5.0}}}')  # as 0.2.0 wrote it
    throughput.add_observed(tmp_path, "H100-80G", {"models": {"a": throughput.ObservedRate(30, 5.0, 60.0)}})
    throughput.add_observed(tmp_path, "A100", {"models": {"a": rate}, "answers": {"b": rate}})
    written = file.read_bytes()
    throughput.add_observed(tmp_path, "H200", {})
    throughput.add_observed(tmp_path, "", {"models": {"a": rate}})

    assert throughput.read_observed([tmp_path], "h100") == {"a": throughput.ObservedRate(40, 10.0, 80.0)}
    assert throughput.read_observed([tmp_path], "A100", "answers") == {"b": rate}
    assert throughput.read_observed([tmp_path], "")["a"].busy == 12.0, "of all kinds"
    assert file.read_bytes() == written


def test_one_thread_prepares_the_pictures_of_a_small_model_on_any_gpu():
    small, large = (ModelSpec(name=f"own-{n}b", source="own", parameters=n) for n in (1, 30))
    rates = {kind: throughput.replica_rate(small, kind).episodes for kind in throughput.SPEEDS}

    assert set(rates.values()) == {throughput.MAX_PICTURES_PER_S}
    assert throughput.replica_rate(large, "b200").episodes == pytest.approx(10.0)


def test_an_accelerator_is_found_among_the_gpus_of_the_forecast(tmp_path):
    folders = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    sweep = load(PAPER, [f'models=["{MODEL}"]']).model_copy(update=folders)
    sweep = sweep.model_copy(update={"models": (sweep.models[0].model_copy(update={"accelerator": "H200"}),)})
    assert not any(line.startswith("left out") for line in forecast_lines(sweep, 8, "h200"))
    assert any("1 GPU of kind H200" in line for line in forecast_lines(sweep, 8, "h100"))
