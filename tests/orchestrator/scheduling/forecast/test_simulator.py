"""The full paper sweep on 1, 8 and 64 GPUs: near a bound that no schedule beats, with and without faults."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.forecast import forecast, forecast_lines, replica_rates
from orchestrator.scheduling.forecast.simulator import FaultModel, Simulation, Work, lower_bound, simulate
from orchestrator.scheduling.forecast.timeline import GRAY, PALETTE, draw_timeline, layout_bars
from orchestrator.scheduling.nodes import Node, build_nodes
from orchestrator.scheduling.scheduler import Demand, Scheduler
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.load import SweepError, load
from sweeps.spec import Protocol
from tests.orchestrator.colour_vision import closest

PAPER = Path("sweeps/paper.toml")
WIDE_ALONE = {"llava-ov-72b", "qwen2.5-vl-32b", "qwen2.5-vl-72b", "internvl3-38b", "internvl3-78b"}
"""What cannot run on one GPU."""


@cache
def paper():
    """The paper's episodes, each of three pictures, so that work outweighs starts on 64 GPUs, too."""
    sweep = load(PAPER, [])
    pending = workload.published_work(sweep)
    known = {m.name: throughput.episode_rate(m, "h200", pictures=3.0) for m in workload.split_by_gpu(sweep)[0]}
    demands = {m.name: Demand(0, m.gpus, 64, 64, rate=known[m.name].episodes, start=known[m.name].start)
               for m in workload.split_by_gpu(sweep)[0]}  # fmt: skip
    numbers = count()
    return {name: [next(numbers) for _ in range(pending.episode_count(name))] for name in demands}, demands


@cache
def played(gpus, seed, deaths=0.0):
    pending, demands = paper()
    faults = FaultModel(seed, deaths, silent=0.2, skew=0.4, slowdown=0.05)
    found = simulate(pending, demands, gpus, faults)
    fitting = sum(len(queue) for name, queue in pending.items() if name not in found.abandoned)
    assert (found.delivered, found.duplicates, found.given_up) == (fitting, 0, 0), "every episode exactly once"
    assert set(found.abandoned) == (WIDE_ALONE if gpus == 1 else set())
    return found


@pytest.mark.parametrize("gpus", [1, 8, 64])
@pytest.mark.parametrize("seed", range(4))
def test_the_paper_takes_at_most_a_tenth_longer_than_the_bound(gpus, seed):
    assert 1.0 <= played(gpus, seed).ratio <= 1.10


@pytest.mark.parametrize(("gpus", "most"), [(1, 1.005), (8, 1.01), (64, 1.07)])
def test_without_faults_the_forecast_of_the_paper_is_near_the_bound(gpus, most):
    found = forecast(load(PAPER, []), gpus, "h200").simulated

    assert found.ratio is not None and 1.0 <= found.ratio <= most


@pytest.mark.parametrize("gpus", [1, 8, 64])
@pytest.mark.parametrize("seed", range(4))
def test_with_a_tenth_of_the_workers_dying_at_most_a_quarter_longer(gpus, seed):
    assert 1.0 <= played(gpus, seed, deaths=0.1).ratio <= 1.25


def test_the_deaths_are_real_and_the_silent_are_found():
    pending, demands = paper()
    found = simulate(pending, demands, 64, FaultModel(6, deaths=0.3, silent=1.0, skew=0.4, slowdown=0.05))

    assert sum(span.outcome == "lost" for span in found.spans) >= 0.2 * len(found.spans)
    assert (found.delivered + found.given_up, found.duplicates) == (sum(map(len, pending.values())), 0)
    assert found.given_up < 100 and not found.abandoned, "only what died alone twice, by chance"


def test_equal_seeds_give_equal_runs():
    again = played.__wrapped__(8, 3, 0.1)

    assert played(8, 3, 0.1).spans == again.spans != played(8, 2, 0.1).spans


def test_no_gpu_is_held_twice_and_a_replica_stays_on_one_node():
    found = played(64, 2, 0.1)
    held = Counter()
    for span in found.spans:
        held[span.node, span.began] += span.gpus
        held[span.node, span.ended] -= span.gpus
    level = Counter()
    for (node, _), change in sorted(held.items()):
        level[node] += change
        assert 0 <= level[node] <= 8
    assert {span.gpus for span in found.spans} == {1, 2, 4}


def test_the_bound_by_hand():
    works = [Work(100, 4, 2.0, 30.0), Work(60, 1, 1.0, 20.0), Work(0, 1, 1.0, 1e6)]
    found = lower_bound(works, 8)

    assert found.area == (4 * (30 + 50) + (20 + 60)) / 8 == 50.0
    assert found.longest == 30.5
    assert found.seconds == 50.0
    assert lower_bound(works, 64).seconds == 30.5, "one start and one episode take no less on more GPUs"
    assert lower_bound([], 8).seconds == 0.0


@pytest.mark.parametrize("seed", range(30))
def test_nothing_beats_the_bound(seed):
    pending = {f"m{i}": range(1000 * i, 1000 * i + 37 * (seed + i) % 900 + 1) for i in range(5)}
    demands = {
        name: Demand(0, 1 + (seed + i) % 2, concurrency=8, rate=0.5 + i, start=10.0 * i)
        for i, name in enumerate(pending)
    }
    found = simulate(pending, demands, 2 + seed % 5, FaultModel(seed, 0.1 * (seed % 2), 0.5, 0.5, 0.1))

    assert found.makespan >= found.bound.seconds
    assert found.delivered == sum(map(len, pending.values()))


def test_gpus_go_where_the_work_is_only_if_it_outweighs_a_start():
    pending = {"short": range(100), "long": range(100, 1000)}
    cheap = {name: Demand(0, 1, rate=1.0, start=5.0, concurrency=4) for name in pending}
    dear = {name: Demand(0, 1, rate=1.0, start=1000.0, concurrency=4) for name in pending}

    gained, kept = simulate(pending, cheap, 2), simulate(pending, dear, 2)
    assert gained.makespan < 900, "the long one is played by two"
    assert sum(span.group == "long" for span in gained.spans) > 1
    assert sorted(span.group for span in kept.spans) == ["long", "short"]


@pytest.mark.parametrize(("start", "work", "replicas"), [(600, 600, 8), (600, 100, 4), (600, 10, 1), (60, 6000, 8)])
def test_replicas_start_while_the_first_one_still_starts_as_far_as_that_pays(start, work, replicas):
    """One model on 8 GPUs, all free: 600 s of start and 600 s of work take 675 s at best."""
    found = simulate({"m": range(work)}, {"m": Demand(0, 1, rate=1.0, start=float(start))}, 8)

    assert found.makespan <= 1.10 * (start + work / 8)
    assert len(found.spans) == replicas
    assert all(span.began == 0 for span in found.spans)


def test_the_bound_knows_how_many_replicas_a_model_may_have():
    pending, demand = {"m": range(1000)}, Demand(0, 2, replicas=3, rate=1.0, start=20.0)
    found = simulate(pending, {"m": demand}, 8)
    assert found.bound.longest == 20 + 1000 / 3 > found.bound.area == 2 * 1020 / 8
    assert found.ratio is not None and 1.0 <= found.ratio < 1.05

    shared = simulate(pending, {"m": replace(demand, pool="judges")}, 8, shares={"judges": 4})
    assert shared.bound.longest == 20 + 1000 / 2, "two GPUs each, four in all"
    split = simulate(pending, {"m": replace(demand, replicas=64)}, 8, nodes=[Node("a", 3), Node("b", 3), Node("c", 2)])
    assert split.bound.longest == 20 + 1000 / 3, "one replica a node: none lies on two"
    assert shared.ratio is not None and split.ratio is not None and max(shared.ratio, split.ratio) < 1.05


def test_where_every_model_is_given_up_there_is_no_ratio():
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

    assert {(span.group, span.node) for span in spans} == {("big", "a"), ("small", "b")}


def test_a_pool_takes_no_more_than_its_share():
    pending = {"model": range(500), "judge": range(500, 1000)}
    demands = {name: Demand(0, 1, rate=1.0, start=5.0, pool=name + "s") for name in pending}
    schedule = Scheduler(pending, demands, 0, 8, build_nodes(8), {"judges": 1})
    simulation = Simulation(schedule, {n: Work(500, 1, 1.0, 5.0) for n in pending}, FaultModel(), {})
    simulation.run()

    assert max(sum(s.began <= t < s.ended for s in simulation.spans if s.group == "judge") for t in range(600)) == 1
    assert sum(s.group == "model" and s.began == 0 for s in simulation.spans) == 7


# -- rates ----------------------------------------------------------------------------------------------------------------
def test_what_a_run_saw_outweighs_the_table_on_its_kind_of_gpu_alone(tmp_path):
    model = next(m for m in load(PAPER, []).models if m.name == "qwen2.5-vl-7b")
    schedule = Scheduler({model.name: range(10)}, {model.name: Demand(0, 1)}, 0, 1)
    group = schedule.groups[model.name]
    group.played, group.busy_s, group.start_times = 100_000, 50_000.0, [40.0, 44.0]
    throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,))
    throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,))

    seen = throughput.read_observed([tmp_path], "h200")[model.name]
    assert (seen.episodes, seen.busy, len(seen.starts)) == (200_000, 100_000.0, 4)
    found = throughput.episode_rate(model, "h200", seen)
    assert found.source == "measured"
    assert found.episodes == pytest.approx(2.0, rel=0.05)
    assert throughput.read_observed([tmp_path], "a100") == {}
    (tmp_path / throughput.OBSERVED_FILE).write_text('{"gpu": "h200", "models": [1]}')
    assert throughput.read_observed([tmp_path], "h200") == {}, "a spoilt file adds nothing"


def test_a_run_tells_the_pace_of_what_it_played_and_of_nothing_else(tmp_path):
    schedule = Scheduler(
        {"m": range(10), "judge:j": ()}, {"m": Demand(0, 1, judge="judge:j"), "judge:j": Demand(0, 1)}, 0, 2
    )
    for name, played in (("m", 500), ("judge:j", 300)):
        schedule.groups[name].played, schedule.groups[name].busy_s = played, 100.0
    seen = {}
    for protocols in ((Protocol.OEG,), (Protocol.MCQA,), tuple(Protocol)):
        folder = tmp_path / "-".join(protocols)
        folder.mkdir()
        throughput.write_observed(folder, schedule, "H200", protocols)
        seen[protocols] = [
            throughput.read_observed([folder], "h200", kind)
            for kind in (throughput.EPISODES, throughput.ANSWERS, throughput.VERDICTS)
        ]

    models, judge = {"m": throughput.ObservedRate(500, 100.0)}, {"j": throughput.ObservedRate(300, 100.0)}
    assert list(seen.values()) == [[{}, models, judge], [models, {}, judge], [{}, {}, judge]]


def test_long_answers_take_their_tokens_and_one_picture():
    known = {m.name: m for m in load(PAPER, []).models}
    for name in ("qwen2.5-vl-7b", "qwen2.5-vl-72b", "llava-next-vicuna-7b"):
        picture = throughput.episode_rate(known[name], "h200", pictures=1.0).episodes
        answer = throughput.answer_rate(known[name], "h200").episodes
        tokens = 150 * known[name].parameters / (60_000 * known[name].gpus)
        assert 1 / answer == pytest.approx(1 / picture + tokens)
    mixed = throughput.combine_rates(
        [(100, throughput.Rate(1.0, 9.0, "reckoned")), (300, throughput.Rate(3.0, 9.0, "measured"))]
    )
    assert mixed == throughput.Rate(2.0, 9.0, "measured")


def test_every_model_of_the_paper_has_a_rate_and_the_counts_are_those_of_the_paper():
    sweep = load(PAPER, [])
    models, others = workload.split_by_gpu(sweep)

    assert {throughput.episode_rate(model, "H200").source for model in models} == {"reckoned"}
    assert [model.name for model in others] == ["o4-mini", "gpt-4.1", "gpt-5.2"]
    assert sum(workload.published_work(sweep).episodes.values()) == 794_166
    with pytest.raises(SweepError, match="h200"):
        throughput.episode_rate(models[0], "abacus")


def test_no_gpu_is_faster_than_the_front_end_before_it(tmp_path):
    """On a GPU twice as fast the smallest InternVL3 waits for its front end; a trial's own figure comes before the table's."""
    sweep = load(PAPER, ['models=["internvl3-1b", "llava-1.5-7b"]', "conditions=['reference']", "only=[]"])
    pending = workload.published_work(sweep)
    slower, faster = (replica_rates(sweep, kind, [], pending)["internvl3-1b"] for kind in ("h200", "b200"))
    assert (slower.episodes, slower.front_end) == (17.0, False)
    assert (faster.episodes, faster.front_end) == (21.0, True)

    for most in (12.0, 9.0, 0.0):
        seen = throughput.ObservedRate(0, 0.0, (), most)
        throughput.add_observed(tmp_path, "H200", {throughput.EPISODES: {"internvl3-1b": seen}})
    outlook = forecast(sweep, 8, "h200", [tmp_path])
    assert outlook.rates["internvl3-1b"].episodes == 9.0, "of the latest trial that measured it"
    assert outlook.rates["llava-1.5-7b"].episodes == 36.0
    assert "limited by one front end per worker, not by the GPU: internvl3-1b (9 episodes/s)" in outlook.lines()
    assert not any("front end" in line for line in forecast(sweep, 8, "h200").lines())


def test_a_rate_follows_the_pictures_that_a_sweeps_conditions_show():
    """1.33 pictures an episode zero-shot, 2.21 with hints: 1 + the paper's mean number of suggestions, by kept samples."""
    everything = {**CONDITIONS, **VARIANTS}
    shown = {name: throughput.mean_pictures(condition) for name, condition in everything.items()}
    assert (shown["zero-shot"], shown["hint"], shown["reference"]) == (1.33, 2.21, 1.0)
    assert shown["zero-shot"] < shown["hint"] < shown["history"] < shown["icl-1"] < shown["icl-3"]
    assert shown["hint-budget"] == shown["hint"] and shown["random-proactive"] == shown["zero-shot"]

    rates = {}
    for name in ("zero-shot", "hint"):
        sweep = load(PAPER, [f"conditions=['{name}']", "only=[]"])
        rates[name] = replica_rates(sweep, "h200", [], workload.published_work(sweep))["qwen2.5-vl-7b"].episodes
        asked = Demand(0, 1)
        sweep = sweep.model_copy(update={"output": "nowhere/run"})
        told = workload.estimate_demands({"qwen2.5-vl-7b": asked}, sweep, "H200-141GB")["qwen2.5-vl-7b"]
        assert told.rate == rates[name], "the scheduler is told what the forecast reckons with"
    assert rates["zero-shot"] / rates["hint"] == pytest.approx(2.21 / 1.33)
    both = load(PAPER, ["conditions=['zero-shot', 'hint']", "only=[]"])
    assert workload.published_work(both).pictures["qwen2.5-vl-7b"] == pytest.approx((1.33 + 2.21) / 2)


def test_the_timelines_colours_stay_apart_for_colour_blind_readers():
    assert closest([*PALETTE, GRAY, "white"]) >= 9, "models, judges and the background"
    assert closest(PALETTE) >= 12
    assert closest(PALETTE[:8]) >= 17, "few models are told at a glance"


# -- forecast and picture ---------------------------------------------------------------------------------------------------
def test_the_forecast_tells_hours_bound_cost_and_draws_the_timeline(tmp_path):
    sweep = load(PAPER, ['models=["qwen2.5-vl-7b", "llava-ov-72b", "gpt-4.1"]']).model_copy(
        update={"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    )
    lines = "\n".join(forecast_lines(sweep, 8, "h200", price=2.0, timeline=tmp_path / "t.png"))
    found = forecast(sweep, 8, "h200")

    for word in ("makespan", "lower bound", "GPU-hours", "cost", "gpt-4.1", "published benchmark"):
        assert word in lines
    assert "rates reckoned: llava-ov-72b, qwen2.5-vl-7b" in lines.replace(
        "qwen2.5-vl-7b, llava-ov-72b", "llava-ov-72b, qwen2.5-vl-7b"
    )
    assert re.search(r"makespan +[\d.]+ h \([\d.]+ to [\d.]+ h in 8 simulations", lines)
    assert f"{8 * found.simulated.makespan / 3600 * 2.0:,.2f}" in lines
    assert (tmp_path / "t.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_range_of_a_forecast_is_that_of_its_rates(tmp_path):
    """The less is known of the rates, the wider; equal seeds give equal ranges."""
    sweep = load(PAPER, ['models=["qwen2.5-vl-7b", "llava-ov-7b"]'])
    for name in ("qwen2.5-vl-7b", "llava-ov-7b"):
        rate = throughput.episode_rate(next(m for m in sweep.models if m.name == name), "h200").episodes
        schedule = Scheduler({name: ()}, {name: Demand(0, 1)}, 0, 1)
        schedule.groups[name].played, schedule.groups[name].busy_s = int(1e6 * rate), 1e6
        throughput.write_observed(tmp_path, schedule, "H200", (Protocol.MCQA,))
    reckoned, again = (forecast(sweep, 8, "h200", simulations=6) for _ in range(2))
    measured = forecast(sweep, 8, "h200", [tmp_path], simulations=6)
    wide, narrow = ((min(one.makespans), max(one.makespans)) for one in (reckoned, measured))

    assert reckoned.makespans == again.makespans and len(set(reckoned.makespans)) == 6
    assert wide[0] < narrow[0] <= measured.simulated.makespan <= narrow[1] < wide[1]
    assert any(line == "rates measured: qwen2.5-vl-7b, llava-ov-7b" for line in measured.lines())


def open_ended(tmp_path, *changes, name="paper-oeg"):
    folder = {"output": str(tmp_path / "run"), "data": str(tmp_path / "nowhere")}
    return load(Path(f"sweeps/{name}.toml"), list(changes)).model_copy(update=folder)


@pytest.mark.parametrize("gpus", [1, 8, 64])
def test_a_judge_reads_every_answer_beside_the_models_or_after_them(gpus, tmp_path):
    found = forecast(open_ended(tmp_path), gpus, "h200").simulated
    judges = [span for span in found.spans if span.group == "judge:qwen3-8b"]
    writers = [span for span in found.spans if span.group != "judge:qwen3-8b"]
    left_out = sum(workload.published_work(open_ended(tmp_path)).episode_count(name) for name in found.abandoned)
    services = 3 * 2 * 630

    assert found.delivered == 27_720 - services - left_out
    assert found.verdicts == found.delivered + services, "answers of services are read, too"
    assert set(found.abandoned) == (WIDE_ALONE if gpus == 1 else set()) and found.ratio >= 1.0
    if gpus == 1:
        assert min(span.began for span in judges) >= max(span.ended for span in writers)
    else:
        assert min(span.began for span in judges) < max(span.ended for span in writers)
        most = max(sum(s.gpus for s in writers if s.began <= t < s.ended) for t in (span.began for span in writers))
        assert most <= gpus - gpus // 8


def test_the_forecast_of_open_ended_work_tells_its_verdicts_and_what_they_were_reckoned_from(tmp_path):
    lines = "\n".join(forecast_lines(open_ended(tmp_path), 8, "h200", timeline=tmp_path / "t.png"))
    assert "27,720 verdicts of 19 models" in lines and "150 tokens" in lines and "1,000 per verdict" in lines

    rules = open_ended(tmp_path, "judge.model='rule-judge'", "judge.instruction='ours'", 'models=["qwen2.5-vl-7b"]')
    lines = "\n".join(forecast_lines(rules, 8, "h200", timeline=tmp_path / "t.png"))
    assert "1,260 episodes of 1 model on" in lines and "not simulated, without GPU: rule-judge" in lines


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_judge_that_episodes_wait_for_stands_from_the_first_of_them_to_the_last(gpus, tmp_path):
    turns = open_ended(tmp_path, 'protocol="oeg-multi"', "judge.instruction='ours'")
    told = forecast(turns, gpus, "h200")
    judges = [span for span in told.simulated.spans if span.group == "judge:qwen3-8b"]
    writers = [span for span in told.simulated.spans if span.group != "judge:qwen3-8b"]

    if gpus == 1:
        assert not told.simulated.spans
        assert set(told.simulated.abandoned.values()) >= {
            "internvl3-8b needs 1 GPU, the cluster has 0 in addition to 1 GPU for judge:qwen3-8b"
        }
        return
    (judge,) = judges
    assert judge.began == min(span.began for span in writers) and judge.outcome == "stopped"
    assert max(span.ended for span in writers) <= judge.ended == told.simulated.makespan
    assert any("reads turn by turn" in line for line in told.lines())


def test_what_is_stored_and_unread_waits_for_the_judge_alone(tmp_path):
    nothing = workload.PendingWork({}, {}, unread=500)
    found = forecast(open_ended(tmp_path), 8, "h200", pending=nothing).simulated

    assert (found.delivered, found.verdicts, {span.group for span in found.spans}) == (0, 500, {"judge:qwen3-8b"})


def test_a_bar_takes_free_neighbours_and_no_row_is_taken_twice():
    found = played(8, 1)
    laid = layout_bars(found.spans, build_nodes(8))

    assert all(len(bar.rows) == bar.span.gpus == len(set(bar.rows)) for bar in laid)
    for one in laid:
        for other in laid:
            if one is not other and set(one.rows) & set(other.rows):
                assert one.span.ended <= other.span.began or other.span.ended <= one.span.began
    with pytest.raises(ValueError, match="GPUs free"):
        layout_bars(found.spans, build_nodes(4))


def test_a_picture_that_cannot_be_written_raises(tmp_path):
    with pytest.raises(OSError):
        draw_timeline(simulate({"m": range(5)}, {"m": Demand(0, 1)}, 1), build_nodes(1), tmp_path / "no" / "t.png", "t")
