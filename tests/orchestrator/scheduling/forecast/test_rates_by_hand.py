"""Rates of replicas by hand, from the figures at the head of rates.toml, and what measurements make of them."""

import json

import pytest

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.throughput import ObservedRate, Rate, combine_phases, combine_rates
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.load import SweepError, build, build_judge
from sweeps.registry import registry
from sweeps.spec import ModelSpec, Protocol

QWEN = registry()["qwen2.5-vl-7b"]


def model(**fields) -> ModelSpec:
    return ModelSpec(
        **{"name": "mine", "source": "org/mine", "backend": "transformers", "parameters": 10, "gpus": 1, **fields}
    )


def test_gpus_have_a_speed_beside_an_h200():
    assert {name: throughput.gpu_speed(name.upper()) for name in throughput.gpu_types()} == {
        "h200": 1.0, "h100": 0.9, "a100": 0.35, "l40s": 0.3, "b200": 2.0,
    }  # fmt: skip
    with pytest.raises(SweepError) as refused:
        throughput.gpu_speed("abacus")
    assert str(refused.value) == "no rates are known for GPU type 'abacus'; type one of h200, h100, a100, l40s, b200"


def test_a_model_of_the_table_has_its_pictures_and_start():
    """Qwen2.5-VL-7B has 8.3 billion parameters or so: 3 s each are read, the rest of its 90 s is warm."""
    billions = QWEN.parameters
    rate = throughput.episode_rate(QWEN, "h100", pictures=2.0)
    assert rate.episodes == pytest.approx(21.0 * 0.9 / 2) and (rate.start, rate.source, rate.front_end) == (
        90,
        "reckoned",
        False,
    )
    assert rate.phases == StartPhases(0.0, 3.0 * billions, 45.0, 90 - 3.0 * billions) and rate.weights == 2.0 * billions
    assert throughput.episode_rate(QWEN, "h200").episodes == pytest.approx(21.0 / 1.33)
    for gpus, share in ((0.5, 0.5), (1, 1.0), (2, 1.0)):
        part = QWEN.model_copy(update={"gpus": gpus})
        assert throughput.episode_rate(part, "h200", pictures=1.0).episodes == pytest.approx(21.0 * share)
    small = registry()["qwen2.5-vl-3b"].model_copy(update={"gpus": 0.5, "parameters": 3})
    assert throughput.episode_rate(small, "h200", pictures=1.0).episodes == 17.0, "a thread limits it, not its part"


@pytest.mark.parametrize(
    ("fields", "gpu", "pictures", "start"),
    [
        ({}, "h200", 15.0, 90.0), ({}, "b200", 30.0, 90.0), ({"gpus": 2}, "h200", 17.0, 90.0),
        ({"parameters": 5}, "h200", 17.0, 75.0), ({"parameters": 100, "gpus": 4}, "h200", 6.0, 360.0),
        ({"parameters": None, "gpus": 0}, "h200", 17.0, 81.0), ({"parameters": None, "gpus": 0.5}, "h200", 75 / 7, 81.0),
    ],
)  # fmt: skip
def test_a_model_of_no_table_is_guessed_from_its_size(fields, gpu, pictures, start):
    """150 pictures/s per GPU and billion parameters, no more than 17; a minute and 3 s a billion to start."""
    rate = throughput.episode_rate(model(**fields), gpu, pictures=1.0)
    assert rate.episodes == pytest.approx(pictures) and (rate.start, rate.source) == (start, "guessed")


def test_a_front_end_bounds_vllm_by_the_table_and_any_engine_by_a_trial():
    fields = {"backend": "vllm", "architecture": "InternVLForConditionalGeneration", "parameters": 1}
    fast = registry()["llava-1.5-7b"].model_copy(
        update={"architecture": "InternVLForConditionalGeneration", "backend": "vllm"}
    )
    limited = throughput.episode_rate(fast, "h200", pictures=1.0)
    assert (limited.episodes, limited.front_end) == (21.0, True)
    assert throughput.episode_rate(fast, "h200", pictures=2.0).episodes == 10.5
    other = fast.model_copy(update={"backend": "transformers"})
    assert throughput.episode_rate(other, "h200", pictures=1.0).episodes == 36.0
    trial = throughput.episode_rate(other, "h200", ObservedRate(front_end=9.0), 1.0)
    assert (trial.episodes, trial.front_end) == (9.0, True)
    assert not throughput.episode_rate(model(**fields), "h200", ObservedRate(front_end=17.0), 1.0).front_end


def test_answers_take_a_picture_and_150_tokens_and_verdicts_a_thousand():
    """A billion parameters write 60,000 tokens/s, ten 6,000: 150 tokens are 0.025 s after 1/15 s for a picture."""
    assert throughput.answer_rate(model(), "h200").episodes == pytest.approx(1 / (1 / 15 + 0.025))
    assert throughput.answer_rate(model(gpus=2), "h100").episodes == pytest.approx(1 / (1 / (17 * 0.9) + 150 / 10_800))
    judge = build_judge({"model": {"name": "j", "source": "s", "parameters": 10, "gpus": 1}}, "a test")
    rate = throughput.verdict_rate(judge, "h200")
    assert (rate.episodes, rate.start, rate.source) == (6.0, 90.0, "reckoned")
    assert rate.phases == StartPhases(0.0, 30.0, 45.0, 60.0) and rate.weights == 20.0
    assert throughput.length_assumptions() == (
        "assumed length where no run measured it: 150 tokens per open-ended answer, 1,000 per verdict"
    )


def test_ten_minutes_of_observation_weigh_as_much_as_the_table():
    seen = ObservedRate(6_000, 600.0, (50.0, 70.0))
    rate = throughput.episode_rate(model(), "h200", seen, 1.0)
    assert rate.episodes == pytest.approx((15 * 600 + 6_000) / 1_200) and rate.start == (90 + 50 + 70) / 3
    assert (rate.source, rate.weights) == ("measured", 20.0) and rate.phases == StartPhases(0.0, 30.0, 45.0, 60.0)
    unseen = throughput.episode_rate(model(), "h200", ObservedRate(6_000, 0.0, (1.0,)), 1.0)
    assert (unseen.source, unseen.start) == ("guessed", 90.0)
    phases = (StartPhases(5.0, 10.0, 40.0, 20.0),)
    assert throughput.episode_rate(model(), "h200", ObservedRate(1, 1.0, (), 0.0, phases), 1.0).phases == phases[0]


def test_a_typical_start_compiles_what_the_slowest_does_beyond_the_fastest():
    starts = [StartPhases(5.0, 10.0, 40.0, 20.0), StartPhases(0.0, 14.0, 3.0, 22.0), StartPhases(9.0, 12.0, 4.0, 30.0)]
    assert combine_phases(starts[:1]) == starts[0]
    assert combine_phases(starts) == StartPhases(9.0, 12.0, 37.0, 25.0)


def test_mixed_work_takes_the_sum_of_its_times():
    fast, slow = Rate(4.0, 9.0, "measured"), Rate(1.0, 30.0, "guessed", front_end=True)
    assert combine_rates([(100, fast), (75, slow)]) == Rate(1.75, 9.0, "measured", front_end=True)
    assert combine_rates([(10, fast), (75, slow)]).source == "guessed"
    assert combine_rates([(0, fast), (75, slow)]) == slow and combine_rates([(0, fast), (0, slow)]) == fast


def test_episodes_show_the_pictures_of_their_condition():
    mean = {name: throughput.mean_pictures(CONDITIONS[name]) for name in ("zero-shot", "hint", "history", "reference")}
    assert mean == {"zero-shot": 1.33, "hint": 2.21, "history": 2.48, "reference": 1.0}
    assert throughput.mean_pictures(CONDITIONS["icl-3"]) == pytest.approx(1.33 + 3 * 3.0)
    assert throughput.mean_pictures(Condition(name="x", hint=True, shots=1)) == pytest.approx(2.21 + 3.0)
    frame = next(c for c in VARIANTS.values() if c.every_frame)
    state = next(c for c in VARIANTS.values() if c.every_state)
    assert throughput.mean_pictures(frame) == 9.7 and throughput.mean_pictures(state) == 9.4 * (1 + state.thoughts)


def test_measurements_add_up_in_a_file_that_keeps_the_last_32_starts(tmp_path):
    starts = tuple(float(n) for n in range(30))
    first = ObservedRate(10, 2.00049, starts, 5.12345)
    second = ObservedRate(5, 1.0, (99.98765, 100.0, 101.0), phases=(StartPhases(1.0, 2.0, 3.0, 4.0),) * 33)
    throughput.add_observed(tmp_path, "H200-141GB", {"models": {"b": first, "a": second}})
    throughput.add_observed(tmp_path, "h200", {"models": {"b": second}, "verdicts": {"j": first}})
    throughput.add_observed(tmp_path, "", {"models": {"b": second}})
    content = json.loads((tmp_path / "rates.json").read_text())
    assert (content["gpu"], list(content["models"]), content["answers"]) == ("h200", ["a", "b"], {})
    row = content["models"]["b"]
    assert (row["episodes"], row["busy"], row["front_end"]) == (15, 3.0, 5.123) and len(row["phases"]) == 32
    assert row["starts"] == [*[float(n) for n in range(1, 30)], 99.988, 100.0, 101.0]
    assert row["phases"][0] == {"download": 1.0, "read": 2.0, "compile": 3.0, "warm": 4.0}
    assert set(content["verdicts"]["j"]) == {"episodes", "busy", "starts", "front_end"}
    both = throughput.read_observed([tmp_path, tmp_path / "none", tmp_path], "H200")
    assert (
        both["b"].episodes == 30 and both["b"].front_end == 5.123 and throughput.read_observed([tmp_path], "h100") == {}
    )
    assert ObservedRate(1, 2.0, (3.0,), 4.0) + ObservedRate(5, 6.0, (7.0,), 8.0) == ObservedRate(
        6, 8.0, (3.0, 7.0), 8.0
    )
    assert (ObservedRate(front_end=4.0) + ObservedRate()).front_end == 4.0


@pytest.mark.parametrize(
    ("protocols", "kinds"),
    [((Protocol.MCQA,), {"models": ["m"], "verdicts": ["j"]}), ((Protocol.OEG,), {"answers": ["m"], "verdicts": ["j"]}),
     ((Protocol.OEG_MULTI,), {"verdicts": ["j"]}), ((Protocol.MCQA, Protocol.OEG), {"verdicts": ["j"]})],
)  # fmt: skip
def test_a_run_measures_the_one_kind_of_work_that_it_played(tmp_path, protocols, kinds):
    schedule = Scheduler(
        {"m": [1], "judge:j": [2], "idle": [3]}, dict.fromkeys(("m", "judge:j", "idle"), Demand(0, 1)), 8, 8
    )
    for name, busy, played in (("m", 10.0, 20), ("judge:j", 5.0, 4), ("idle", 3.0, 0)):
        group = schedule.groups[name]
        group.busy_s, group.played, group.start_times = busy, played, [7.0]
    throughput.write_observed(tmp_path, schedule, "h200", protocols, {"m": [StartPhases(1.0, 2.0, 3.0, 4.0)]})
    for kind in ("models", "answers", "verdicts"):
        found = throughput.read_observed([tmp_path], "h200", kind)
        assert list(found) == kinds.get(kind, [])
        if "m" in found:
            assert found["m"] == ObservedRate(20, 10.0, (7.0,), phases=(StartPhases(1.0, 2.0, 3.0, 4.0),))


# -- work --------------------------------------------------------------------------------------------------------------
def sweep_of(**options):
    table = {"name": "s", "data": "d", "models": ["qwen2.5-vl-7b", "uniform", "guess"], "scenarios": ["QD", "ROD"]}
    return build({**table, "conditions": ["zero-shot", "hint"], **options}, "a test")


def test_published_samples_are_counted_without_the_data():
    def count(**options):
        sweep = sweep_of(**options)
        return {cell.scenario: workload.published_samples(sweep, cell) for cell in sweep.cells()}

    full = count()
    assert full["QD"] > 200 and full["ROD"] < 100
    assert count(selection={"limit": 7}) == {"QD": 7, "ROD": 7}
    assert count(selection={"subset": "open-ended"}) == {"QD": 100, "ROD": full["ROD"]}
    assert count(selection={"subset": "open-ended", "limit": 99}) == {"QD": 99, "ROD": full["ROD"]}
    assert count(selection={"ids": {"QD": [1, 2, 3]}}) == {"QD": 3, "ROD": full["ROD"]}


def test_work_is_counted_by_group_and_kind_with_its_mean_pictures():
    sweep = sweep_of(protocol=["mcqa", "oeg", "tools"], judge={"model": "rule-judge"})
    cells = [cell for cell in sweep.cells() if cell.scenario == "QD"]
    work = workload.count_work(((cell, 10 if cell.condition.name == "hint" else 30) for cell in cells), unread=5)
    assert work.episodes == {"qwen2.5-vl-7b": 80, "builtin": 160} and work.answers == {
        "qwen2.5-vl-7b": 40,
        "builtin": 80,
    }
    assert work.pictures["qwen2.5-vl-7b"] == pytest.approx((3 * 1.33 + 2.21) / 4) == work.pictures["builtin"]
    assert (work.unread, work.episode_count("builtin"), work.episode_count("none")) == (5, 240, 0)
    assert [len(group) for group in workload.split_by_gpu(sweep)] == [1, 1], "policies are one group"


def test_a_scheduler_begins_with_rates_of_multiple_choice_on_known_gpus(tmp_path):
    plain = {"qwen2.5-vl-7b": Demand(4, 1), "builtin": Demand(1, 0)}
    sweep = sweep_of(output=str(tmp_path / "run"))
    estimated = workload.estimate_demands(plain, sweep, "H200-141GB")
    assert (
        estimated["qwen2.5-vl-7b"].rate == pytest.approx(21.0 / ((1.33 + 2.21) / 2))
        and estimated["builtin"] == plain["builtin"]
    )
    assert estimated["qwen2.5-vl-7b"].start == 90 and estimated["qwen2.5-vl-7b"].cpus == 4
    assert workload.estimate_demands(plain, sweep, "abacus") == plain
    spoken = sweep_of(protocol="oeg", judge={"model": "rule-judge"}, output=str(tmp_path / "run"))
    assert workload.estimate_demands(plain, spoken, "h200") == plain
    (tmp_path / "other").mkdir()
    throughput.add_observed(tmp_path / "other", "h200", {"models": {"qwen2.5-vl-7b": ObservedRate(60_000, 600.0)}})
    assert workload.sibling_runs(sweep) == [tmp_path / "other"]
    assert workload.estimate_demands(plain, sweep, "h200")["qwen2.5-vl-7b"].rate > 50
    assert workload.estimate_demands({"builtin": Demand(1, 0)}, sweep, "h200") == {"builtin": Demand(1, 0)}
