"""Episodes that outgrow their model are known before a run: by picture limits, contexts, and the pictures' own sizes."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from envs import SCENARIOS
from envs.render import Renderer
from envs.types import ImageRef
from orchestrator.inspection import overflow
from orchestrator.inspection.overflow import SIZES, Bounds, PromptShape, Risk, bounds, lines, risks
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build
from sweeps.registry import registry
from sweeps.spec import ModelSpec

EMBEDDED = Path(__file__).parents[3] / "extras/demo/proactive_demo/embedded"
INTERNVL = {"architecture": "InternVLForConditionalGeneration"}


def plan_of(data, conditions, **entry):
    model = {"name": "m", "source": "nowhere/m", **entry}
    return build_plan(build({"data": str(data), "model": [model], "conditions": conditions}, "x.toml"))


def forecast(data, conditions, **entry):
    return {risk.cell: risk for risk in risks(plan_of(data, conditions, **entry), Path(data))}


def test_baselines_and_people_have_no_context(demo_data, monkeypatch):
    monkeypatch.setattr(overflow, "picture_bounds", lambda model: pytest.fail(f"{model.name} reads no picture"))

    assert risks(plan_of(demo_data, ["history"], backend="builtin", source="builtin:oracle"), demo_data) == []


def test_pictures_are_counted_by_the_turn_limit(demo_data):
    plan = plan_of(demo_data, ["zero-shot", "history"], max_images=5)
    risk_by_cell = {risk.cell: risk for risk in risks(plan, demo_data)}

    assert risk_by_cell and all(
        "history" in cell and "the entry allows 5 (max_images)" in risk.reason for cell, risk in risk_by_cell.items()
    )
    for name, samples in plan.samples.items():
        longer = sum(SCENARIOS[name].limit(sample) > 5 for sample in samples)
        cell = risk_by_cell.get(f"m/{name}/history")
        assert (cell.episodes, cell.first) == (longer, 0) if longer else cell is None


def test_tokens_are_those_of_the_table_where_no_processor_is_at_hand(demo_data):
    risk_by_cell = forecast(demo_data, ["history"], **INTERNVL)["m/VSOD/history"]
    limits = [SCENARIOS["VSOD"].limit(sample) for sample in plan_of(demo_data, ["history"]).samples["VSOD"]]

    assert (
        sum(limit * 3600 > 32768 for limit in limits)
        >= risk_by_cell.episodes
        >= sum(limit * 3330 > 32768 for limit in limits)
        > 0
    )
    assert risk_by_cell.first == 0 and "(by table) in a context of 32,768" in risk_by_cell.reason
    assert forecast(demo_data, ["history"], **INTERNVL, options={"max_model_len": 1_000_000}) == {}
    assert forecast(demo_data, ["history"], **INTERNVL, beyond_context=True) == {}


def test_a_condition_that_recalls_few_turns_grows_no_further(demo_data):
    short = {"name": "short", "history": True, "history_turns": 2}
    table = {"data": str(demo_data), "model": [{"name": "m", "source": "nowhere/m", **INTERNVL}], "condition": [short]}

    assert risks(build_plan(build(table, "x.toml")), demo_data) == []


def test_pictures_count_with_their_own_sizes(demo_data, tmp_path):
    """Examples of MVP-N show their pictures in their own size: small ones fit, those of a camera do not at the first turn."""
    entry = {"architecture": "Qwen2_5_VLForConditionalGeneration", "options": {"max_model_len": 8192}}
    assert forecast(demo_data, ["icl-3"], **entry) == {}
    data = shutil.copytree(demo_data, tmp_path / "data")
    for path in (data / "MVP-N").rglob("*.*"):
        if path.suffix in (".png", ".jpg"):
            Image.new("RGB", (1280, 960)).save(path)
    found = forecast(data, ["icl-3"], **entry)["m/MVP-N/icl-3"]

    assert found.first == found.episodes == found.planned > 0
    assert f"{found.planned} of {found.planned} episodes (100%) at turn 0" in str(found)


def test_unknown_model_is_not_guessed_at(demo_data):
    assert forecast(demo_data, ["zero-shot", "history"]) == {}
    assert forecast(demo_data, ["zero-shot", "history"], options={"max_model_len": 64}) == {}


def test_data_that_are_elsewhere_count_as_common_pictures(demo_data, tmp_path):
    plan = plan_of(demo_data, ["history"], **INTERNVL)

    assert {risk.cell for risk in risks(plan, tmp_path / "absent")} >= {"m/VSOD/history"}


def test_a_processor_on_disk_is_asked(demo_data):
    pytest.importorskip("torch", reason="the extra `transformers` is not installed")
    entry = registry()["embedded"].model_copy(update={"source": str(EMBEDDED)})
    limits = bounds(entry)

    assert (limits.source, limits.picture_tokens([SIZES["small"], SIZES["full"]])) == ("processor", [19, 19])
    assert 0.1 < limits.tokens_per_character() < 1
    assert bounds(entry, by_processor=False).source == "table"


def test_the_first_risks_are_named_and_the_others_counted(demo_data):
    all_risks = risks(plan_of(demo_data, ["history"], max_images=2), demo_data)

    messages = lines(all_risks, limit=3)
    assert len(messages) == 4 and messages[-1] == f"may overflow: {len(all_risks) - 3} more cells"
    assert lines(all_risks, limit=len(all_risks)) == lines(all_risks, limit=99)


def test_a_risk_says_when_and_how_many():
    risk = Risk("m/ROD/history", first=2, episodes=5, planned=8, reason="up to 9 pictures")

    assert str(risk) == (
        "m/ROD/history: 2 of 8 episodes (25%) at turn 0 and 3 of 8 episodes (38%) at a later turn if they ask on, "
        "up to 9 pictures"
    )


def test_columns_are_the_sizes_that_the_table_was_counted_with():
    """The head of picture_tokens.toml: 298x224, 640x480, 1280x960 and 4032x3024, width first."""
    assert SIZES == {"small": (224, 298), "full": (480, 640), "large": (960, 1280), "photo": (3024, 4032)}


class Counter:
    """A processor that counts a token a pixel row, and two a character."""

    def pictures(self, sizes):
        return [height for height, _ in sizes]

    def text(self, text):
        return 2 * len(text)


class Sizes:
    """Pictures of known height."""

    def size(self, ref):
        return int(ref.path), 1


CELL = SimpleNamespace(key="m/QD/history")


def shape(*heights, characters=100, messages=2, question=40, turns=1):
    return PromptShape(tuple(ImageRef(str(height)) for height in heights), characters, messages, question, turns)


def test_a_prompt_has_its_texts_its_messages_and_its_pictures():
    """100 characters are 25 tokens by the table, and 200 by the counter; a message has four more."""
    table = overflow._Forecast(Bounds(None, 1000, {"small": 5}), Sizes())
    counted = overflow._Forecast(Bounds(None, 1000, {}, Counter()), Sizes())
    for forecast, first, longest in (
        (table, 25 + 8 + 10, 43 + 2 * (10 + 4 + 20 + 5)), (counted, 200 + 8 + 40, 248 + 2 * (80 + 4 + 20 + 30)),
    ):  # fmt: skip
        forecast.risk(CELL, [shape(10, 30, turns=3)])
        assert forecast._first(shape(10, 30, turns=3)) == (2, first)
        assert forecast._longest(shape(10, 30, turns=3)) == (4, longest)
        assert forecast._longest(shape(10, 30)) == (2, first)
    assert table._longest(shape(turns=3))[0] == 0 and table._first(shape(characters=101))[1] == 26 + 8
    assert (table.bounds.source, counted.bounds.source) == ("table", "processor")


def test_a_prompt_that_fills_the_context_leaves_no_room_for_a_reply():
    for context, episodes in ((248, 2), (249, 1), (258, 1), (259, 0)):
        risk = overflow._Forecast(Bounds(None, context, {}, Counter()), Sizes()).risk(
            CELL, [shape(10, 30), shape(10, 40)]
        )
        assert (risk.episodes if risk else 0) == episodes
        assert risk is None or risk == Risk(
            "m/QD/history", episodes, episodes, 2,
            f"up to 2 pictures and about 258 tokens (by processor) in a context of {context}",
        )  # fmt: skip


def test_later_turns_overflow_by_pictures_or_tokens():
    shapes = [shape(10, turns=turns) for turns in (1, 3, 4)]
    by_pictures = overflow._Forecast(Bounds(3, None, {}), Sizes()).risk(CELL, shapes)
    assert by_pictures == Risk("m/QD/history", 0, 1, 3, "up to 4 pictures, the entry allows 3 (max_images)")
    assert overflow._Forecast(Bounds(4, None, {}), Sizes()).risk(CELL, shapes) is None
    both = overflow._Forecast(Bounds(3, 500, {}, Counter()), Sizes()).risk(CELL, shapes)
    assert both.reason == (
        "up to 4 pictures and about 560 tokens (by processor) in a context of 500, the entry allows 3 (max_images)"
    )
    unknown = overflow._Forecast(Bounds(None, 50, {}), Sizes())
    assert unknown.risk(CELL, [shape(10, characters=9_999)]) is None, "text alone does not decide"
    assert overflow._Forecast(Bounds(None, 50, {}), Sizes()).risk(CELL, [shape(characters=9_999)]) is not None


def test_a_risk_at_the_first_turn_or_later_alone_is_one_share():
    assert str(Risk("c", 4, 4, 1_000, "r")) == "c: 4 of 1,000 episodes (0%) at turn 0, r"
    assert str(Risk("c", 0, 5, 8, "r")) == "c: 5 of 8 episodes (62%) at a later turn if they ask on, r"


def test_limits_are_of_the_entry_its_files_or_the_table(tmp_path):
    plain = ModelSpec(name="m", source="s", architecture="LlavaForConditionalGeneration", max_images=3)
    assert bounds(plain) == Bounds(3, 4096, {"small": 577, "full": 577, "large": 577, "photo": 577, "context": 4096})
    assert bounds(plain.model_copy(update={"options": {"max_model_len": 99}})).tokens == 99
    (tmp_path / "config.json").write_text(
        '{"architectures": ["LlavaForConditionalGeneration"], "max_position_embeddings": 777}'
    )
    local = bounds(ModelSpec(name="m", source=str(tmp_path)), by_processor=False)
    assert (local.pictures, local.tokens, local.picture_tokens([(1, 1)])) == (None, 777, [577])


def test_pictures_that_are_not_here_have_a_common_size(tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    sizes = overflow.PictureSizes(Renderer(tmp_path))
    refs = (ImageRef("a.png"), ImageRef("b.png"), ImageRef("b.png", None, 224))
    assert [sizes.size(ref) for ref in refs] == [(20, 30), (480, 640), (224, 298)]
    (tmp_path / "a.png").unlink()
    assert sizes.size(refs[0]) == (20, 30), "a header is read once"
