"""The full paper sweep on 1, 8 and 64 GPUs: near a bound that no schedule beats, with and without faults."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.forecast import forecast, forecast_lines, replica_rates
from orchestrator.scheduling.forecast.simulator import Simulation, Work, lower_bound
from orchestrator.scheduling.forecast.timeline import GRAY, PALETTE, draw_timeline, layout_bars
from orchestrator.scheduling.nodes import Node, build_nodes
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.load import SweepError, load
from sweeps.spec import Protocol
from tests.faults import FaultModel, simulate
from tests.orchestrator.colour_vision import least_distance

PAPER = Path("sweeps/paper.toml")
WIDE_ALONE = {"llava-ov-72b", "qwen2.5-vl-32b", "qwen2.5-vl-72b", "internvl3-38b", "internvl3-78b"}
"""Models that cannot run on one GPU."""


@cache
def paper():
    """Return the paper's episodes with three pictures each, so that work outweighs starts even on 64 GPUs."""
    sweep = load(PAPER, [])
    pending = workload.published_work(sweep)
    rates = {m.name: throughput.episode_rate(m, "h200", pictures=3.0) for m in workload.split_by_gpu(sweep)[0]}
    demands = {m.name: Demand(0, m.gpus, 64, 64, rate=rates[m.name].episodes, start=rates[m.name].start)
               for m in workload.split_by_gpu(sweep)[0]}  # fmt: skip
    numbers = count()
    return {name: [next(numbers) for _ in range(pending.episode_count(name))] for name in demands}, demands


@cache
def simulate_paper(gpus, seed, deaths=0.0):
    pending, demands = paper()
    faults = FaultModel(seed, deaths, silent=0.2, skew=0.4, slowdown=0.05)
    run = simulate(pending, demands, gpus, faults)
    fitting = sum(len(queue) for name, queue in pending.items() if name not in run.abandoned)
    assert (run.delivered, run.duplicates, run.given_up) == (fitting, 0, 0), "every episode exactly once"
    assert set(run.abandoned) == (WIDE_ALONE if gpus == 1 else set())
    return run


@pytest.mark.parametrize("gpus", [1, 8, 64])
@pytest.mark.parametrize("seed", range(4))
def test_paper_takes_at_most_a_tenth_longer_than_bound(gpus, seed):
    assert 1.0 <= simulate_paper(gpus, seed).ratio <= 1.10


@pytest.mark.parametrize(("gpus", "ratio_limit"), [(1, 1.005), (8, 1.01), (64, 1.03)])
def test_forecast_without_faults_is_near_bound(monkeypatch, gpus, ratio_limit):
    monkeypatch.setattr(throughput, "_with_phases", lambda rate, model: rate)  # starts do not wait for each other
    run = forecast(load(PAPER, []), gpus, "h200").simulated

    assert run.ratio is not None and 1.0 <= run.ratio <= ratio_limit


@pytest.mark.parametrize(("gpus", "ratio_limit"), [(1, 1.005), (8, 1.01), (64, 1.03), (256, 1.08), (800, 1.12)])
def test_forecast_with_waits_of_starts_is_near_bound(gpus, ratio_limit):
    """Engines share a node's disk, which the bound does not count."""
    run = forecast(load(PAPER, []), gpus, "h200").simulated

    assert run.ratio is not None and 1.0 <= run.ratio <= ratio_limit


@pytest.mark.parametrize("gpus", [1, 8, 64])
@pytest.mark.parametrize("seed", range(4))
def test_ten_percent_deaths_cost_at_most_a_quarter(gpus, seed):
    assert 1.0 <= simulate_paper(gpus, seed, deaths=0.1).ratio <= 1.25


def test_dead_and_silent_workers_are_replaced():
    pending, demands = paper()
    run = simulate(pending, demands, 64, FaultModel(9, deaths=0.3, silent=1.0, skew=0.4, slowdown=0.05))

    assert sum(span.outcome == "lost" for span in run.spans) >= 0.2 * len(run.spans)
    assert (run.delivered + run.given_up, run.duplicates) == (sum(map(len, pending.values())), 0)
    assert run.given_up < 100 and not run.abandoned, "only what died alone twice, by chance"


def test_equal_seeds_give_equal_runs():
    again = simulate_paper.__wrapped__(8, 3, 0.1)

    assert simulate_paper(8, 3, 0.1).spans == again.spans != simulate_paper(8, 2, 0.1).spans


def test_no_gpu_is_held_twice_and_a_replica_stays_on_one_node():
    run = simulate_paper(64, 2, 0.1)
    changes = Counter()
    for span in run.spans:
        changes[span.place.node, span.began] += span.gpus
        changes[span.place.node, span.ended] -= span.gpus
    level = Counter()
    for (node, _), change in sorted(changes.items()):
        level[node] += change
        assert 0 <= level[node] <= 8
    assert {span.gpus for span in run.spans} == {1, 2, 4}


def test_the_bound_by_hand():
    works = [Work(100, 4, 2.0, 30.0), Work(60, 1, 1.0, 20.0), Work(0, 1, 1.0, 1e6)]
    bound = lower_bound(works, 8)

    assert bound.area == (4 * (30 + 50) + (20 + 60)) / 8 == 50.0
    assert bound.longest == 30.5
    assert bound.seconds == bound.tight == pytest.approx((4 * (2 * 30 + 50) + (2 * 20 + 60)) / 8, rel=1e-3), "two each"
    assert lower_bound(works, 64).tight == pytest.approx(30 + 50 / 14, rel=1e-3), "14 replicas of the first"
    assert lower_bound(works, 800).seconds == 30.5, "one start and one episode take no less on more GPUs"
    assert lower_bound([], 8).seconds == 0.0


@pytest.mark.parametrize("seed", range(30))
def test_nothing_beats_the_bound(seed):
    pending = {f"m{i}": range(1000 * i, 1000 * i + 37 * (seed + i) % 900 + 1) for i in range(5)}
    demands = {
        name: Demand(0, 1 + (seed + i) % 2, concurrency=8, rate=0.5 + i, start=10.0 * i)
        for i, name in enumerate(pending)
    }
    run = simulate(pending, demands, 2 + seed % 5, FaultModel(seed, 0.1 * (seed % 2), 0.5, 0.5, 0.1))

    assert run.makespan >= run.bound.seconds
    assert run.delivered == sum(map(len, pending.values()))


def test_gpus_move_only_if_work_outweighs_a_start():
    pending = {"short": range(100), "long": range(100, 1000)}
    cheap = {name: Demand(0, 1, rate=1.0, start=5.0, concurrency=4) for name in pending}
    dear = {name: Demand(0, 1, rate=1.0, start=1000.0, concurrency=4) for name in pending}

    cheap_run, dear_run = simulate(pending, cheap, 2), simulate(pending, dear, 2)
    assert cheap_run.makespan < 900, "the long one is played by two"
    assert sum(span.group == "long" for span in cheap_run.spans) > 1
    assert sorted(span.group for span in dear_run.spans) == ["long", "short"]


@pytest.mark.parametrize(("start", "work", "replicas"), [(600, 600, 8), (600, 100, 4), (600, 10, 1), (60, 6000, 8)])
def test_replicas_start_at_once_if_they_pay(start, work, replicas):
    """One model on 8 GPUs, all free: 600 s of start and 600 s of work take 675 s at best."""
    run = simulate({"m": range(work)}, {"m": Demand(0, 1, rate=1.0, start=float(start))}, 8)

    assert run.makespan <= 1.10 * (start + work / 8)
    assert len(run.spans) == replicas
    assert all(span.began == 0 for span in run.spans)


def test_bound_respects_replica_limits():
    pending, demand = {"m": range(1000)}, Demand(0, 2, replicas=3, rate=1.0, start=20.0)
    run = simulate(pending, {"m": demand}, 8)
    assert run.bound.longest == 20 + 1000 / 3 > run.bound.area == 2 * 1020 / 8
    assert run.ratio is not None and 1.0 <= run.ratio < 1.05

    shared = simulate(pending, {"m": replace(demand, pool="judges")}, 8, shares={"judges": 4})
    assert shared.bound.longest == 20 + 1000 / 2, "two GPUs each, four in all"
    split = simulate(pending, {"m": replace(demand, replicas=64)}, 8, nodes=[Node("a", 3), Node("b", 3), Node("c", 2)])
    assert split.bound.longest == 20 + 1000 / 3, "one replica a node: none lies on two"
    assert shared.ratio is not None and split.ratio is not None and max(shared.ratio, split.ratio) < 1.05


def test_no_ratio_if_every_model_is_given_up():
    assert simulate({"wide": range(9)}, {"wide": Demand(0, 16, rate=1.0, start=5.0)}, 8).ratio is None

    lines = "\n".join(
        forecast(load(PAPER, ['models=["llava-ov-72b"]', "conditions=['hint']", "only=[]"]), 1, "h200").lines()
    )
    assert "every model was given up" in lines and "left out: llava-ov-72b needs 4 GPUs" in lines
    assert "1.000" not in lines


def test_models_stay_on_their_kind_of_gpu():
    nodes = [Node("a", 2, "H200"), Node("b", 2, "L40S")]
    pending = {"big": range(400), "small": range(400, 800)}
    demands = {
        "big": Demand(0, 1, accelerator="H200", rate=1.0, start=9.0),
        "small": Demand(0, 1, accelerator="L40S", rate=1.0, start=9.0),
    }
    spans = simulate(pending, demands, 4, nodes=nodes).spans

    assert {(span.group, span.place.node) for span in spans} == {("big", "a"), ("small", "b")}


def test_a_pool_takes_no_more_than_its_share():
    pending = {"model": range(500), "judge": range(500, 1000)}
    demands = {name: Demand(0, 1, rate=1.0, start=5.0, pool=name + "s") for name in pending}
    schedule = Scheduler(pending, demands, 0, 8, build_nodes(8), {"judges": 1})
    simulation = Simulation(schedule, {n: Work(500, 1, 1.0, 5.0) for n in pending}, {})
    simulation.run(pending)

    assert max(sum(s.began <= t < s.ended for s in simulation.spans if s.group == "judge") for t in range(600)) == 1
    assert sum(s.group == "model" and s.began == 0 for s in simulation.spans) == 7


# -- rates ----------------------------------------------------------------------------------------------------------------
def test_observed_rates_win_over_table_on_same_gpu_only(tmp_path):
    model = next(m for m in load(PAPER, []).models if m.name == "qwen2.5-vl-7b")
    schedule = Scheduler({model.name: range(10)}, {model.name: Demand(0, 1)}, 0, 1)
    group = schedule.groups[model.name]
    group.played, group.busy_s, group.start_times = 100_000, 50_000.0, [40.0, 44.0]
    throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,))
    throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,))

    observed = throughput.read_observed([tmp_path], "h200")[model.name]
    assert (observed.episodes, observed.busy, len(observed.starts)) == (200_000, 100_000.0, 4)
    rate = throughput.episode_rate(model, "h200", observed)
    assert rate.source == "measured"
    assert rate.episodes == pytest.approx(2.0, rel=0.05)
    assert throughput.read_observed([tmp_path], "a100") == {}
    assert rate.phases.read == 21.0, "reckoned, without measured phases"
    (tmp_path / throughput.OBSERVED_FILE).write_text('{"gpu": "h200", "models": [1]}')
    assert throughput.read_observed([tmp_path], "h200") == {}, "a spoilt file adds nothing"


def test_measured_phases_of_starts_replace_reckoned_ones(tmp_path):
    sweep = load(PAPER, [])
    (model,) = (model for model in sweep.models if model.name == "qwen2.5-vl-7b")
    schedule = Scheduler({model.name: range(10)}, {model.name: Demand(0, 1)}, 0, 1)
    schedule.groups[model.name].played, schedule.groups[model.name].busy_s = 100_000, 50_000.0
    cold, warm = StartPhases(30.0, 12.0, 50.0, 20.0), StartPhases(0.0, 10.0, 6.0, 24.0)
    for phases in (cold, warm):
        throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,), {model.name: [phases]})

    observed = throughput.read_observed([tmp_path], "h200")[model.name]
    assert observed.phases == (cold, warm)
    outlook = forecast(sweep, 8, "h200", [tmp_path])
    assert outlook.rates[model.name].phases == StartPhases(30.0, 11.0, 44.0, 28.0)
    assert outlook.rates["qwen2.5-vl-3b"].phases == StartPhases(0.0, 9.0, throughput.COMPILE_S, 66.0)
    first = next(span for span in outlook.simulated.spans if span.group == model.name)
    assert first.ready - first.began == pytest.approx(11.0 + 44.0 + 28.0), "downloaded while another model had the GPU"
    assert throughput.combine_phases([cold]) == cold, "a single start had no cache"


def test_run_records_rates_only_of_what_it_played(tmp_path):
    schedule = Scheduler(
        {"m": range(10), "judge:j": ()}, {"m": Demand(0, 1, judge="judge:j"), "judge:j": Demand(0, 1)}, 0, 2
    )
    for name, episodes in (("m", 500), ("judge:j", 300)):
        schedule.groups[name].played, schedule.groups[name].busy_s = episodes, 100.0
    observed = {}
    for protocols in ((Protocol.OEG,), (Protocol.MCQA,), tuple(Protocol)):
        folder = tmp_path / "-".join(protocols)
        folder.mkdir()
        throughput.write_observed(folder, schedule, "H200", protocols)
        observed[protocols] = [
            throughput.read_observed([folder], "h200", kind)
            for kind in (throughput.EPISODES, throughput.ANSWERS, throughput.VERDICTS)
        ]

    models, judge = {"m": throughput.ObservedRate(500, 100.0)}, {"j": throughput.ObservedRate(300, 100.0)}
    assert list(observed.values()) == [[{}, models, judge], [models, {}, judge], [{}, {}, judge]]


def test_long_answers_take_their_tokens_and_one_picture():
    models = {m.name: m for m in load(PAPER, []).models}
    for name in ("qwen2.5-vl-7b", "qwen2.5-vl-72b", "llava-next-vicuna-7b"):
        picture = throughput.episode_rate(models[name], "h200", pictures=1.0).episodes
        answer = throughput.answer_rate(models[name], "h200").episodes
        tokens = 150 * models[name].parameters / (60_000 * models[name].gpus)
        assert 1 / answer == pytest.approx(1 / picture + tokens)
    mixed = throughput.combine_rates(
        [(100, throughput.Rate(1.0, 9.0, "reckoned")), (300, throughput.Rate(3.0, 9.0, "measured"))]
    )
    assert mixed == throughput.Rate(2.0, 9.0, "measured")


def test_every_paper_model_has_rate_and_paper_counts():
    sweep = load(PAPER, [])
    models, others = workload.split_by_gpu(sweep)

    assert {throughput.episode_rate(model, "H200").source for model in models} == {"reckoned"}
    assert [model.name for model in others] == ["o4-mini", "gpt-4.1", "gpt-5.2"]
    assert sum(workload.published_work(sweep).episodes.values()) == 794_166
    with pytest.raises(SweepError, match="h200"):
        throughput.episode_rate(models[0], "abacus")


def test_front_end_limits_rate_on_any_gpu(tmp_path):
    """On a GPU twice as fast, the smallest InternVL3 waits for its front end; measured figures win over the table's."""
    sweep = load(PAPER, ['models=["internvl3-1b", "llava-1.5-7b"]', "conditions=['reference']", "only=[]"])
    pending = workload.published_work(sweep)
    slower, faster = (replica_rates(sweep, kind, [], pending)["internvl3-1b"] for kind in ("h200", "b200"))
    assert (slower.episodes, slower.front_end) == (17.0, False)
    assert (faster.episodes, faster.front_end) == (21.0, True)

    for front_end_rate in (12.0, 9.0, 0.0):
        observed = throughput.ObservedRate(0, 0.0, (), front_end_rate)
        throughput.add_observed(tmp_path, "H200", {throughput.EPISODES: {"internvl3-1b": observed}})
    outlook = forecast(sweep, 8, "h200", [tmp_path])
    assert outlook.rates["internvl3-1b"].episodes == 9.0, "of the latest trial that measured it"
    assert outlook.rates["llava-1.5-7b"].episodes == 36.0
    assert "limited by one front end per worker, not by the GPU: internvl3-1b (9 episodes/s)" in outlook.lines()
    assert not any("front end" in line for line in forecast(sweep, 8, "h200").lines())


def test_rate_follows_pictures_of_conditions():
    """1.33 pictures an episode zero-shot, 2.21 with hints: 1 + the paper's mean number of suggestions, by kept samples."""
    everything = {**CONDITIONS, **VARIANTS}
    pictures = {name: throughput.mean_pictures(condition) for name, condition in everything.items()}
    assert (pictures["zero-shot"], pictures["hint"], pictures["reference"]) == (1.33, 2.21, 1.0)
    assert pictures["zero-shot"] < pictures["hint"] < pictures["history"] < pictures["icl-1"] < pictures["icl-3"]
    assert pictures["hint-budget"] == pictures["hint"] and pictures["random-proactive"] == pictures["zero-shot"]

    rates = {}
    for name in ("zero-shot", "hint"):
        sweep = load(PAPER, [f"conditions=['{name}']", "only=[]"])
        rates[name] = replica_rates(sweep, "h200", [], workload.published_work(sweep))["qwen2.5-vl-7b"].episodes
        demand = Demand(0, 1)
        sweep = sweep.model_copy(update={"output": "nowhere/run"})
        estimate = workload.estimate_demands({"qwen2.5-vl-7b": demand}, sweep, "H200-141GB")["qwen2.5-vl-7b"]
        assert estimate.rate == rates[name], "the scheduler is told what the forecast reckons with"
    assert rates["zero-shot"] / rates["hint"] == pytest.approx(2.21 / 1.33)
    both = load(PAPER, ["conditions=['zero-shot', 'hint']", "only=[]"])
    assert workload.published_work(both).pictures["qwen2.5-vl-7b"] == pytest.approx((1.33 + 2.21) / 2)


def test_timeline_colours_differ_for_colour_blind_readers():
    assert least_distance([*PALETTE, GRAY, "white"]) >= 9, "models, judges and the background"
    assert least_distance(PALETTE) >= 12
    assert least_distance(PALETTE[:8]) >= 17, "few models are told at a glance"


# -- forecast and picture ---------------------------------------------------------------------------------------------------
def test_forecast_prints_hours_bound_and_cost_and_draws_timeline(tmp_path):
    sweep = load(PAPER, ['models=["qwen2.5-vl-7b", "llava-ov-72b", "gpt-4.1"]']).model_copy(
        update={"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    )
    lines = "\n".join(forecast_lines(sweep, 8, "h200", price=2.0, timeline=tmp_path / "t.png"))
    outlook = forecast(sweep, 8, "h200")

    for word in ("makespan", "lower bound", "GPU-hours", "cost", "gpt-4.1", "published benchmark"):
        assert word in lines
    assert "rates reckoned: llava-ov-72b, qwen2.5-vl-7b" in lines.replace(
        "qwen2.5-vl-7b, llava-ov-72b", "llava-ov-72b, qwen2.5-vl-7b"
    )
    assert re.search(r"makespan +[\d.]+ h \([\d.]+ to [\d.]+ h in 8 simulations", lines)
    assert f"{8 * outlook.simulated.makespan / 3600 * 2.0:,.2f}" in lines
    used = f"{outlook.simulated.busy_gpu_seconds / 3600:.1f} in use, {len(outlook.simulated.spans)} worker starts"
    assert f"GPU-hours    {8 * outlook.simulated.makespan / 3600:.1f} reserved, {used}" in lines.splitlines()
    assert (tmp_path / "t.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_forecast_range_follows_rate_uncertainty(tmp_path):
    """The less is known about rates, the wider the range; equal seeds give equal ranges."""
    sweep = load(PAPER, ['models=["qwen2.5-vl-7b", "llava-ov-7b"]'])
    for name in ("qwen2.5-vl-7b", "llava-ov-7b"):
        rate = throughput.episode_rate(next(m for m in sweep.models if m.name == name), "h200").episodes
        schedule = Scheduler({name: ()}, {name: Demand(0, 1)}, 0, 1)
        schedule.groups[name].played, schedule.groups[name].busy_s = int(1e6 * rate), 1e6
        throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,))
    reckoned, again = (forecast(sweep, 8, "h200", simulations=6) for _ in range(2))
    measured = forecast(sweep, 8, "h200", [tmp_path], simulations=6)
    wide, narrow = ((min(outlook.makespans), max(outlook.makespans)) for outlook in (reckoned, measured))

    assert reckoned.makespans == again.makespans and len(set(reckoned.makespans)) == 6
    assert wide[0] < narrow[0] <= measured.simulated.makespan <= narrow[1] < wide[1]
    assert any(line == "rates measured: qwen2.5-vl-7b, llava-ov-7b" for line in measured.lines())


def open_ended(tmp_path, *changes, name="paper-oeg"):
    folder = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    return load(Path(f"sweeps/{name}.toml"), list(changes)).model_copy(update=folder)


@pytest.mark.parametrize("gpus", [1, 8, 64])
def test_judge_reads_every_answer_beside_models_or_after_them(gpus, tmp_path):
    run = forecast(open_ended(tmp_path), gpus, "h200").simulated
    judges = [span for span in run.spans if span.group == "judge:qwen3-8b"]
    writers = [span for span in run.spans if span.group != "judge:qwen3-8b"]
    left_out = sum(workload.published_work(open_ended(tmp_path)).episode_count(name) for name in run.abandoned)
    services = 3 * 2 * 630

    assert run.delivered == 27_720 - services - left_out
    assert run.verdicts == run.delivered + services, "answers of services are read, too"
    assert set(run.abandoned) == (WIDE_ALONE if gpus == 1 else set()) and run.ratio >= 1.0
    if gpus == 1:
        assert min(span.began for span in judges) >= max(span.ended for span in writers)
    else:
        assert min(span.began for span in judges) < max(span.ended for span in writers)
        peak = max(sum(s.gpus for s in writers if s.began <= t < s.ended) for t in (span.began for span in writers))
        assert peak <= gpus - gpus // 8


def test_open_ended_forecast_lists_verdicts_and_assumptions(tmp_path):
    lines = "\n".join(forecast_lines(open_ended(tmp_path), 8, "h200", timeline=tmp_path / "t.png"))
    assert "27,720 verdicts of 19 models" in lines and "150 tokens" in lines and "1,000 per verdict" in lines

    rules = open_ended(tmp_path, "judge.model='rule-judge'", "judge.instruction='ours'", 'models=["qwen2.5-vl-7b"]')
    lines = "\n".join(forecast_lines(rules, 8, "h200", timeline=tmp_path / "t.png"))
    assert "1,260 episodes of 1 model on" in lines and "not simulated, without GPU: rule-judge" in lines


@pytest.mark.parametrize("gpus", [1, 8])
def test_turn_judge_stands_from_first_episode_to_last(gpus, tmp_path):
    turns = open_ended(tmp_path, 'protocol="oeg-multi"', "judge.instruction='ours'")
    outlook = forecast(turns, gpus, "h200")
    judges = [span for span in outlook.simulated.spans if span.group == "judge:qwen3-8b"]
    writers = [span for span in outlook.simulated.spans if span.group != "judge:qwen3-8b"]

    if gpus == 1:
        assert not outlook.simulated.spans
        assert set(outlook.simulated.abandoned.values()) >= {
            "internvl3-8b needs 1 GPU; the cluster has 0 in addition to 1 GPU for judge:qwen3-8b"
        }
        return
    (judge,) = judges
    assert judge.began == min(span.began for span in writers) and judge.outcome == "stopped"
    assert max(span.ended for span in writers) <= judge.ended == outlook.simulated.makespan
    assert any("reads turn by turn" in line for line in outlook.lines())


def test_stored_unread_answers_need_only_the_judge(tmp_path):
    nothing = workload.PendingWork({}, {}, unread=500)
    run = forecast(open_ended(tmp_path), 8, "h200", pending=nothing).simulated

    assert (run.delivered, run.verdicts, {span.group for span in run.spans}) == (0, 500, {"judge:qwen3-8b"})


def test_bars_take_free_rows_without_overlap():
    run = simulate_paper(8, 1)
    bars = layout_bars(run.spans, build_nodes(8))

    assert all(len(bar.rows) == bar.span.gpus == len(set(bar.rows)) for bar in bars)
    for first in bars:
        for second in bars:
            if first is not second and set(first.rows) & set(second.rows):
                assert first.span.ended <= second.span.began or second.span.ended <= first.span.began
    with pytest.raises(ValueError, match="GPUs free"):
        layout_bars(run.spans, build_nodes(4))


def test_unwritable_timeline_raises(tmp_path):
    with pytest.raises(OSError):
        draw_timeline(simulate({"m": range(5)}, {"m": Demand(0, 1)}, 1), build_nodes(1), tmp_path / "no" / "t.png", "t")
