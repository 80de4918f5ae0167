"""A sweep file is a sweep, or one sentence that names file and key and says what to type."""

from pathlib import Path

import pytest

from actors.engine.baselines import POLICIES
from sweeps.conditions import CONDITIONS
from sweeps.load import SweepError, build, build_cell, build_judge, load, skipped_products
from sweeps.sampling import Sampling
from sweeps.sweep_file import NO_SWEEPS

ROOT = Path(__file__).parents[2]
SMALL = {"data": "d", "models": ["oracle"], "scenarios": ["QD"]}
REGISTRIES = {*NO_SWEEPS} - {"starter.toml"}
SWEEPS = [path for path in sorted(ROOT.glob("sweeps/**/*.toml")) if path.name not in REGISTRIES]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda p: p.name)
def test_every_sweep_in_the_tree_loads_and_opens_with_its_purpose_and_command(path):
    lines = path.read_text().splitlines()

    assert lines[0].startswith("# ") and any("proactive-sweep" in line for line in lines[:12] if line.startswith("#"))
    assert load(path).cells()


def test_defaults_are_the_papers():
    sweep = build(SMALL, "small.toml")

    assert (sweep.name, sweep.output, sweep.seed) == ("small", "outputs/small", 0)
    assert (sweep.sampling.temperature, sweep.sampling.max_tokens) == (0.0, 50)
    assert sweep.selection.filtered and sweep.selection.limit is None
    assert build(SMALL, "My Drive/a#b? é%.toml").name == "a-b-", "a name is safe in paths"


def test_long_names_all_and_overrides(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text('data = "d"\nmodels = "oracle"\nscenarios = "QuickDraw, QD, ROD"\nconditions = "all"\n')
    sweep = load(path, ["selection.limit=5", "name=other", 'scenarios=["coco2014"]', "sampling.temperature=0.5"])

    assert sweep.scenarios == ("COCO",)
    assert (sweep.name, sweep.selection.limit, sweep.sampling.temperature) == ("other", 5, 0.5)
    assert load(path).scenarios == ("QD", "ROD")
    assert [condition.name for condition in load(path).conditions] == list(CONDITIONS)


def test_every_policy_may_be_a_model_of_ones_own():
    policies = [{"name": name, "source": f"builtin:{name}", "backend": "builtin"} for name in POLICIES]
    service = {"name": "far", "source": "builtin:whatever", "endpoint": {"base_url": "http://127.0.0.1:1/v1"}}
    sweep = build({"data": "d", "model": [*policies, service], "scenarios": ["QD"]}, "x.toml")

    assert [model.name for model in sweep.models] == [*POLICIES, "far"]


def test_impossible_products_are_left_out_with_a_reason():
    sweep = build({**SMALL, "scenarios": ["QD", "ROD"], "conditions": ["zero-shot", "icl-1"]}, "x.toml")

    assert len(sweep.cells()) == 3
    assert skipped_products(sweep) == ["icl-1 exists only for ROD, MVP-N"]
    for names, reason in ((("QD", "icl-3"), "icl-3 exists only"), (("all", "hint"), "instead of all")):
        with pytest.raises(SweepError, match=reason):
            build_cell(*names)


def test_key_changes_only_with_what_changes_the_answer():
    def cell(**changes):
        entry = {"name": "m", "source": "s", "revision": "r", "backend": "vllm", **changes}
        return build({"data": "d", "model": [entry], "scenarios": ["QD"]}, "x.toml").cells()[0]

    base = cell().fingerprint("1")
    assert base == cell(gpus=4, in_flight=3, note="x", options={"max_num_seqs": 3}).fingerprint("1")
    other = {cell(source="t").fingerprint("1"), cell(revision="q").fingerprint("1"), cell().fingerprint("2")}
    assert len({base, *other}) == 4
    answering = [
        {"dtype": "half"}, {"hf_overrides": {"a": 1}}, {"quantization_config": {"load_in_4bit": True}}, {"rope_scaling": {}},
        {"override_generation_config": {"top_k": 1}}, {"whatever_comes_next": 1},
    ]  # fmt: skip
    changed = {cell(options=options, unsafe_options=True).fingerprint("1") for options in answering}
    assert len({base, *changed}) == 1 + len(answering)
    assert cell(repetition_penalty=1.0).fingerprint("1") != base, "None is the checkpoint's own"
    names = ("Idefics3", "LlavaForConditionalGeneration")
    idefics, llava = (cell(architecture=name).fingerprint("1") for name in names)
    assert idefics != llava, "what an engine gives LLaVA changed once"
    assert cell().key == "m/QD/zero-shot"


def test_an_open_ended_sweep_is_sampled_on_the_papers_subset_and_knows_its_judge():
    sweep = build({**SMALL, "protocol": ["mcqa", "oeg"], "judge": {}}, "small.toml")
    choice, open_ended = sweep.cells()

    assert (choice.sampling.temperature, open_ended.sampling.temperature) == (0.0, 1.0)
    assert open_ended.key == "oracle/QD/zero-shot-oeg"
    subsets = [sweep.selection_for(cell.protocol).subset for cell in (choice, open_ended)]
    assert subsets == ["all", "open-ended"]
    assert sweep.judge is not None and sweep.judge.model.source == "Qwen/Qwen3-8B"
    played = (choice.sampling, open_ended.sampling)
    both = sweep.model_copy(update={"models": (sweep.judge.model,)})
    assert sweep.samplings("oracle") == played and both.samplings("qwen3-8b") == (*played, sweep.judge.sampling)


def test_judge_is_shipped_own_or_a_sentence():
    own = {"name": "mine", "source": "x", "endpoint": {"base_url": "http://127.0.0.1:1/v1"}}
    sweep = build({**SMALL, "model": [own], "judge": {"model": "mine", "attempts": 1}}, "small.toml")

    assert sweep.judge is not None and (sweep.judge.model.backend, sweep.judge.attempts) == ("openai", 1)
    assert build_judge({"model": "rule-judge"}, "here").model.gpus == 0
    with pytest.raises(SweepError, match="attempts = 0"):
        build_judge({"attempts": 0}, "here")


def test_decoding_may_follow_the_checkpoint(tmp_path):
    """As the package's ``generate`` does; old keys hold where it is not asked for."""
    table = {**SMALL, "protocol": ["mcqa", "oeg"], "judge": {"model": "qwen3-8b"}}
    follows = {**table, "sampling": "checkpoint", "open_ended": {"sampling": "checkpoint"}}
    follows["judge"] = {"model": "qwen3-8b", "sampling": {"checkpoint": True, "max_tokens": 16000}}
    sweep = build(follows, "x.toml")

    assert sweep.sampling == Sampling(checkpoint=True, max_tokens=50)
    assert sweep.open_ended.sampling == Sampling(checkpoint=True, sampled=True, max_tokens=32768)
    assert sweep.judge.sampling == Sampling(checkpoint=True, sampled=True, max_tokens=16000)
    assert Sampling().identity == {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "max_tokens": 50}
    assert load(ROOT / "sweeps/baselines.toml", ["sampling=checkpoint"]).sampling.checkpoint


def test_answers_of_several_turns_have_a_judge_that_can_be_asked_between_them():
    talk = {**SMALL, "protocol": "oeg-multi", "conditions": ["zero-shot", "hint"]}
    both = build({**talk, "protocol": ["mcqa", "oeg-multi"], "judge": {"model": "rule-judge"}}, "small.toml")
    names = ("zero-shot", "zero-shot-oeg-multi", "hint", "hint-oeg-multi")
    assert [cell.key for cell in both.cells()] == [f"oracle/QD/{name}" for name in names]
    assert both.turn_judge is both.judge and not both.is_judged
