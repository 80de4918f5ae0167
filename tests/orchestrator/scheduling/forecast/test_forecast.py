"""``plan --gpus``: rates from the table and from measured runs, pending work, and the printed bound."""

from pathlib import Path

import pytest

from actors.engine.baselines import Baseline
from orchestrator.planning.build_plan import build_plan
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.forecast import count_pending_work, forecast, forecast_lines, replica_rates
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.load import SweepError, load
from sweeps.spec import Protocol
from tests.orchestrator.report import runs

PAPER = Path("sweeps/paper.toml")
MODEL = "qwen2.5-vl-7b"


def observed_schedule(*names, episodes=100_000, busy=50_000.0, starts=()):
    """Return a scheduler whose groups have played."""
    schedule = Scheduler({name: range(10) for name in names}, {name: Demand(0, 1) for name in names}, 0, 1)
    for group in schedule.groups.values():
        group.played, group.busy_s, group.start_times = episodes, busy, list(starts)
    return schedule


def open_ended(tmp_path, *changes):
    folder = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    return load(Path("sweeps/paper-oeg.toml"), list(changes)).model_copy(update=folder)


def test_rates_of_real_runs_win_over_the_table_on_the_same_gpu(tmp_path):
    model = next(model for model in load(PAPER, []).models if model.name == MODEL)
    for _ in range(2):
        throughput.write_observed(tmp_path, observed_schedule(MODEL, starts=[40.0, 44.0]), "H200", (Protocol.MCQA,))
    observed = throughput.read_observed([tmp_path], "h200")[MODEL]
    rate = throughput.episode_rate(model, "h200", observed)

    assert (observed.episodes, observed.busy, len(observed.starts)) == (200_000, 100_000.0, 4)
    assert rate.source == "measured" and rate.episodes == pytest.approx(2.0, rel=0.05)
    assert throughput.read_observed([tmp_path], "a100") == {}
    (tmp_path / throughput.OBSERVED_FILE).write_text('{"gpu": "h200", "models": [1]}')
    assert throughput.read_observed([tmp_path], "h200") == {}, "a damaged file adds nothing"


def test_a_run_records_only_the_kind_of_work_that_it_played(tmp_path):
    kinds = (throughput.EPISODES, throughput.ANSWERS, throughput.VERDICTS)
    recorded = []
    for protocols in ((Protocol.OEG,), (Protocol.MCQA,), tuple(Protocol)):
        folder = tmp_path / "-".join(protocols)
        folder.mkdir()
        throughput.write_observed(folder, observed_schedule("m", "judge:j"), "H200", protocols)
        recorded.append([list(throughput.read_observed([folder], "h200", kind)) for kind in kinds])

    assert recorded == [[[], ["m"], ["j"]], [["m"], [], ["j"]], [[], [], ["j"]]]


def test_long_answers_take_their_tokens_and_one_picture():
    models = {model.name: model for model in load(PAPER, []).models}
    for name in (MODEL, "qwen2.5-vl-72b", "llava-next-vicuna-7b"):
        picture = throughput.episode_rate(models[name], "h200", pictures=1.0).episodes
        tokens = 150 * models[name].parameters / (60_000 * models[name].gpus)
        assert 1 / throughput.answer_rate(models[name], "h200").episodes == pytest.approx(1 / picture + tokens)
    slow, fast = throughput.Rate(1.0, 9.0, "reckoned"), throughput.Rate(3.0, 9.0, "measured")
    assert throughput.combine_rates([(100, slow), (300, fast)]) == throughput.Rate(2.0, 9.0, "measured")


def test_every_model_of_the_paper_has_a_rate_and_its_published_episodes():
    sweep = load(PAPER, [])
    models, others = workload.split_by_gpu(sweep)

    assert {throughput.episode_rate(model, "H200").source for model in models} == {"reckoned"}
    assert [model.name for model in others] == ["o4-mini", "gpt-4.1", "gpt-5.2"]
    assert sum(workload.published_work(sweep).episodes.values()) == 794_166
    with pytest.raises(SweepError, match="abacus"):
        throughput.episode_rate(models[0], "abacus")


def test_the_front_end_limits_the_rate_on_any_gpu():
    """On a GPU twice as fast, the smallest InternVL3 waits for its front end."""
    sweep = load(PAPER, ['models=["internvl3-1b", "llava-1.5-7b"]', "conditions=['reference']", "only=[]"])
    pending = workload.published_work(sweep)
    slower, faster = (replica_rates(sweep, kind, [], pending)["internvl3-1b"] for kind in ("h200", "b200"))

    assert slower.episodes < faster.episodes < 2 * slower.episodes


def test_the_scheduler_starts_with_the_rates_of_the_forecast():
    sweep = load(PAPER, ["conditions=['hint']", "only=[]"]).model_copy(update={"output": "nowhere/run"})
    rate = replica_rates(sweep, "h200", [], workload.published_work(sweep))[MODEL].episodes

    assert workload.estimate_demands({MODEL: Demand(0, 1)}, sweep, "H200-141GB")[MODEL].rate == rate
    assert workload.estimate_demands({MODEL: Demand(0, 1)}, sweep, "abacus")[MODEL].rate is None


def test_the_lines_name_hours_sources_and_what_is_not_counted(tmp_path):
    folders = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    sweep = load(PAPER, [f'models=["{MODEL}", "llava-ov-72b", "gpt-4.1"]']).model_copy(update=folders)
    outlook, lines = forecast(sweep, 8, "h200"), forecast_lines(sweep, 8, "h200")

    assert f"at least     {outlook.hours:.2f} h" in lines and outlook.hours > 1
    assert any(line == f"GPU-hours    {8 * outlook.hours:.1f}" for line in lines)
    text = "\n".join(lines)
    assert all(words in text for words in ("rates reckoned", "without GPU: gpt-4.1", "published benchmark"))
    narrow = forecast(sweep, 1, "h200")
    assert list(narrow.left_out) == ["llava-ov-72b"] and "left out: llava-ov-72b needs 4 GPUs" in narrow.lines()


def test_a_judge_reads_every_answer(tmp_path):
    outlook = forecast(open_ended(tmp_path), 8, "h200")
    assert outlook.works["judge:qwen3-8b"].episodes == 27_720, "answers of services, too"
    assert any("150 tokens" in line for line in outlook.lines())

    unread = forecast(open_ended(tmp_path), 8, "h200", pending=workload.PendingWork({}, {}, unread=500))
    assert (unread.episodes, unread.works["judge:qwen3-8b"].episodes) == (0, 500)
    turns = forecast(open_ended(tmp_path, 'protocol="oeg-multi"', "judge.instruction='ours'"), 8, "h200")
    assert any("reads turn by turn" in line for line in turns.lines())


def test_pending_work_is_counted_by_kind(demo_data, tmp_path):
    wanted = runs.sweep(
        demo_data, ["refuse", "uniform"], ["zero-shot"], protocol=["mcqa", "oeg"], judge={"model": "rule-judge"},
        selection={"limit": 2}, open_ended={"selection": {"limit": 5}},
    ).model_copy(update={"output": str(tmp_path / "run")})  # fmt: skip
    planned = count_pending_work(wanted, build_plan(wanted))
    runs.play_sweep(tmp_path / "run", wanted, only=planned.episode_count("builtin") - 10)
    runs.judge_answers(tmp_path / "run", wanted, wanted.judge, Baseline("rule-judge"), only=4)
    remaining = count_pending_work(wanted, build_plan(wanted))

    assert planned.episodes["builtin"] and planned.answers["builtin"] and planned.unread == 0
    assert remaining.episode_count("builtin") == 10
    stored = planned.answers["builtin"] - remaining.answers["builtin"]
    assert stored > 4 and remaining.unread == stored - 4
    with pytest.raises(SweepError, match="no model of this sweep needs a GPU"):
        forecast_lines(load(PAPER, ['models=["gpt-4.1"]', "only=[]"]), 8, "h200")


def test_rates_are_added_to_those_of_the_folder(tmp_path):
    rate = throughput.ObservedRate(4, 2.0, (9.0,))
    first = {"models": {"a": throughput.ObservedRate(10, 5.0, (60.0,))}, "answers": {"b": rate}}
    throughput.add_observed(tmp_path, "H100-80G", first)
    throughput.add_observed(tmp_path, "H100", {"models": {"a": throughput.ObservedRate(30, 5.0, (62.0,))}})
    throughput.add_observed(tmp_path, "", {"models": {"a": throughput.ObservedRate(99, 1.0)}})

    assert throughput.read_observed([tmp_path], "h100") == {"a": throughput.ObservedRate(40, 10.0, (60.0, 62.0))}
    assert throughput.read_observed([tmp_path], "h100", "answers") == {"b": rate}
    assert throughput.read_observed([tmp_path], "a100") == {}
