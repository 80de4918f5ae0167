"""Replicates: planted variance components are found, keys of the first replicate stay, and all are played and shown."""

import numpy as np
import pytest

from actors.playing.prompts import apply_condition, messages, turn_view
from envs import SCENARIOS
from envs.stimulus import OPTIONS_FOLLOW, lettered
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.measures.robustness import robustness, variance_components
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.evidence import robustness_table
from sweeps.load import SweepError
from sweeps.wordings import SHIPPED, shipped_wording
from tests.orchestrator.report.runs import play_sweep, sweep

MODELS = ["uniform", "first-option", "guess"]
CONTENT = {
    "moving", "occluding", "object", "reveal", "behind", "occlusion", "waiting", "rewinding", "video", "rotating", "view",
    "informative", "enhancing", "image", "quality", "classification", "adding", "details", "quickdraw", "camera", "zooming",
    "answer", "question", "disappear", "appear",
}  # fmt: skip
"""Words of published hints that carry meaning."""


@pytest.mark.parametrize(
    ("sample", "wording", "order", "levels"),
    [
        (0.3, 0.0, 0.2, (1, 3, 2)),
        (0.0, 0.0, 0.0, (1, 2, 3)),
        (0.15, 0.16, 0.17, (3, 2, 2)),
        (0.0, 0.35, 0.0, (4, 1, 2)),
    ],
)
def test_planted_variance_components_are_found(sample, wording, order, levels):
    """Chances are 1/2 plus or minus each effect, so the variances are their squares; the rest of 1/4 is the draw's."""
    rng, runs, n = np.random.default_rng(1), 60, 150
    (wordings, orders, _), parts = levels, []
    for _ in range(runs):
        signs = [rng.choice([-1, 1], (n, *shape)) for shape in ((1, 1, 1), (wordings, 1, 1), (wordings, orders, 1))]
        chances = 0.5 + sample * signs[0] + wording * signs[1] + order * signs[2]
        parts.append(variance_components((rng.random((n, *levels)) < chances).astype(np.int64)))
    means = [None if None in column else np.mean(column) for column in zip(*parts, strict=True)]
    rest = 0.25 - sample**2 - wording**2 - order**2

    for value, expected, level in zip(means, (sample**2, wording**2, order**2, rest), (n, *levels), strict=True):
        assert (value is None) == (level == 1)
        assert value is None or value == pytest.approx(expected / 0.25, abs=0.03)


def test_one_seed_attributes_draw_to_order():
    rng = np.random.default_rng(2)
    sample, wording, order, decoding = variance_components((rng.random((400, 1, 5, 1)) < 0.5).astype(np.int64))

    assert decoding is None and wording is None and order > 0.9 and sample < 0.1


def test_first_replicate_keeps_keys_of_plain_sweep(demo_data):
    alone, replicated = (
        build_plan(sweep(demo_data, MODELS, ["zero-shot", "hint"], **x)) for x in ({}, {"replicates": 3})
    )
    wider = build_plan(sweep(demo_data, MODELS, ["zero-shot", "hint"], replicates={"orders": 3, "seeds": 2}))
    keys = [set(plan.all_keys()) for plan in (alone, replicated, wider)]

    assert replicated.total == 3 * alone.total and wider.total == 6 * alone.total
    assert keys[0] < keys[1] < keys[2]


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    wanted = sweep(
        demo_data, MODELS, ["zero-shot"], scenarios=["ROD", "QD"], replicates={"orders": 2, "seeds": 2},
        selection={"limit": 8},
    )  # fmt: skip
    return play_sweep(tmp_path_factory.mktemp("replicates") / "run", wanted)


def test_report_shows_first_replicate_and_variance_of_all(run):
    run_data = read_run(run)
    rows = robustness(run_data)
    row = rows.filter(model="uniform", scenario="QD").row(0, named=True)

    assert set(run_data.rows["condition"]) == {"zero-shot"} and run_data.episodes.height == 3 * 2 * 8
    assert run_data.replicates.height == 3 * run_data.episodes.height
    assert (rows["orders"].unique().to_list(), rows["seeds"].unique().to_list(), row["n"]) == ([2], [2], 8)
    assert row["acc_first"] == run_data.rows.filter(model="uniform", scenario="QD")["acc"].item()
    assert row["least"] <= row["acc"] <= row["most"] and row["acc_low"] < row["acc"] < row["acc_high"]
    first = rows.filter(model="first-option", scenario="QD").row(0, named=True)
    assert first["var_decoding"] == 0, "it draws nothing"
    assert {name.text for name, *_ in robustness_table(run_data).rows} == set(MODELS)


def test_order_permutes_options_and_draw_changes_seed_only(run, demo_data):
    plan = build_plan(sweep(demo_data, MODELS, ["zero-shot"], scenarios=["QD"], replicates={"orders": 3, "seeds": 2}))
    conditions = {(c.condition.order, c.condition.draw): c.condition for c in plan.cells if c.model.name == "uniform"}
    sample = plan.samples["QD"][0]
    views = {key: apply_condition(sample, condition, plan.seed) for key, condition in conditions.items()}

    assert sorted(conditions) == [(order, draw) for order in range(3) for draw in range(2)]
    assert views[0, 0] == views[0, 1] == sample
    assert {frozenset(view.categories) for view in views.values()} == {frozenset(sample.categories)}
    others = [
        apply_condition(other_sample, conditions[2, 0], plan.seed).categories != other_sample.categories
        for other_sample in plan.samples["QD"]
    ]
    assert sum(others) > len(others) / 2
    seeds = {key: plan.episode_seed(sample, condition) for key, condition in conditions.items()}
    assert len(set(seeds.values())) == 2 and seeds[0, 0] == seeds[1, 0] != seeds[0, 1]


@pytest.mark.parametrize(
    ("table", "message"),
    [({"replicates": 0}, "replicates"), ({"replicates": {"order": 3}}, "did you mean 'replicates.orders'"),
     ({"replicates": 2, "protocol": "oeg"}, "multiple choice"),
     ({"replicates": {"wordings": 10}}, "9"), ({"replicates": {"own_wordings": [{"template": "{question}"}]}}, "options"),
     ({"replicates": {"own_wordings": [{"template": "{question}{options}", "hints": {"RODD": "x"}}]}}, "RODD")],
)  # fmt: skip
def test_bad_replicates_are_refused(demo_data, table, message):
    with pytest.raises(SweepError, match=message):
        sweep(demo_data, MODELS, ["zero-shot"], **table)


def test_wordings_change_message_and_hint_and_keep_question_and_options(demo_data):
    own = {"template": "{question}\n{options}Go.", "hints": {"COCO": "Maybe zoom or move."}}
    wanted = sweep(
        demo_data, ["uniform"], ["zero-shot", "hint"], replicates={"wordings": 9, "own_wordings": [own]}
    )  # fmt: skip
    plan = build_plan(wanted)
    texts: dict[str, set[str]] = {}
    for cell in plan.cells:
        sample, game = plan.samples[cell.scenario][0], SCENARIOS[cell.scenario]
        state = game.initial(sample)
        view, plain = turn_view(sample, state, cell.condition), game.view(sample, state)
        (message,) = messages(sample, view, cell.condition)
        options = (*plain.options, *plain.categories)
        assert plain.prompt in message.text and lettered(options) in message.text
        assert not cell.condition.wording or OPTIONS_FOLLOW not in message.text
        texts.setdefault(cell.key, set()).add(message.text)
        if cell.condition.hint and cell.condition.wording and (cell.scenario == "COCO" or cell.condition.wording < 11):
            assert game.hint_for(sample) not in message.text, "its hint has another wording"
    assert len(plan.cells) == 7 * 2 * 10 and len({text for group in texts.values() for text in group}) == 7 * 2 * 10
    assert "Maybe zoom or move." in next(iter(texts["uniform/COCO/hint-wording11"]))


def test_each_shipped_hint_says_what_the_published_one_says():
    for number in range(1, SHIPPED + 1):
        template, hints = shipped_wording(number)
        assert template.count("{question}") == template.count("{options}") == 1
        for scenario, game in SCENARIOS.items():
            words = set(game.hint.lower().rstrip(".").replace(",", "").split()) & CONTENT
            text = hints[game.hint].lower()
            assert all(word[:3] in text for word in words), (scenario, text)
            assert text.endswith(".") and "{" not in text


def test_wordings_of_a_condition_with_its_own_template_are_left_out(demo_data):
    own = {"name": "mine", "template": "{options}{question}"}
    wanted = sweep(demo_data, ["uniform"], ["mine", "zero-shot"], condition=[own], replicates={"wordings": 3})

    assert [c.name for c in wanted.replicated_conditions] == ["zero-shot-wording1", "zero-shot-wording2"]


def test_wordings_are_played_and_have_their_part_of_variance(demo_data, tmp_path):
    wanted = sweep(
        demo_data, MODELS, ["hint"], scenarios=["QD"], replicates={"wordings": 3, "seeds": 2}, selection={"limit": 8}
    )  # fmt: skip
    run_data = read_run(play_sweep(tmp_path / "run", wanted))
    row = robustness(run_data).filter(model="uniform").row(0, named=True)

    assert (row["wordings"], row["orders"], row["seeds"]) == (3, 1, 2) and row["var_order"] is None
    assert row["var_sample"] + row["var_wording"] + row["var_decoding"] == pytest.approx(100)
    assert set(run_data.rows["condition"]) == {"hint"}
