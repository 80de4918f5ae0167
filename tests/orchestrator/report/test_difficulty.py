"""Difficulty: planted difficulties and accuracies are found again, few answers are drawn together, samples are linked."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

from actors.baselines import Baseline
from orchestrator.report.difficulty import difficulty
from orchestrator.report.evidence_tables import HARDEST, hard_samples
from orchestrator.report.html import write_page
from orchestrator.report.item_response import Answers, fit
from orchestrator.report.run_data import read
from orchestrator.report.tables import write_tables
from sweeps.load import registry
from tests.orchestrator.report.runs import played, sweep

POPULATION = np.random.default_rng(0).normal(size=20_000)


class Planted:
    """Answers of a scenario whose truths are known: chances of cells on new samples, and of samples over the cells."""

    def __init__(self, rng, models, conditions, samples, common=1.5, single=0.7, lacking=0.0):
        self.model, self.condition = np.divmod(np.arange(models * conditions), conditions)
        ability = rng.normal(-0.3, 1.0, models)[self.model] + rng.normal(0, 0.5, conditions)[self.condition]
        ability += rng.normal(0, 0.3, len(ability)) * (conditions > 1)
        self.difficulty = rng.normal(0, common, samples)
        alone = rng.normal(0, single, (models, samples))[self.model]
        right = rng.random((len(ability), samples)) < expit(ability[:, None] - self.difficulty - alone)
        self.right = np.where(rng.random(right.shape) < lacking, np.nan, right)
        self.cells = expit(ability[:, None] - np.hypot(common, single) * POPULATION).mean(axis=1)
        parts = [expit(one - self.difficulty[:, None] - single * POPULATION[:500]).mean(axis=1) for one in ability]
        self.samples = np.mean(parts, axis=0)

    def fitted(self):
        return fit(Answers(self.right, self.model, self.condition))


def held(bounds, truth):
    """The share of truths (n,) that are in their intervals (n, 3: value, low, high)."""
    return np.mean((bounds[:, 1] <= truth) & (truth <= bounds[:, 2]))


def test_planted_difficulties_are_ranked_and_their_spread_is_found():
    planted = Planted(np.random.default_rng(1), models=12, conditions=5, samples=120)
    found = planted.fitted()

    assert spearmanr(found.difficulty, planted.difficulty)[0] >= 0.93
    assert found.spread == pytest.approx((1.5, 0.7), abs=0.25)
    assert held(found.samples, planted.samples) >= 0.9


def test_of_few_answers_the_shrunken_accuracy_is_nearer_to_the_truth_and_its_interval_holds_it():
    """30 samples, half of the answers lacking: squared errors and coverage over 5 runs of 36 cells."""
    rng, errors, coverage = np.random.default_rng(2), [], []
    for _ in range(5):
        planted = Planted(rng, models=6, conditions=6, samples=30, lacking=0.5)
        found = planted.fitted()
        raw = np.nanmean(planted.right, axis=1)
        errors.append([((one - planted.cells) ** 2).mean() for one in (found.cells[:, 0], raw)])
        coverage.append([held(found.cells, planted.cells), held(found.samples, planted.samples)])
    shrunken, raw = np.mean(errors, axis=0)

    assert shrunken < 0.6 * raw
    assert (np.mean(coverage, axis=0) >= 0.9).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("models", "conditions", "samples", "common", "single"),
    [(3, 1, 30, 1.2, 0), (3, 12, 30, 1.5, 0.7), (8, 3, 40, 0.3, 0.3), (12, 5, 150, 1.5, 0.7), (22, 2, 42, 2.0, 0.5)],
)
def test_coverage_of_cells_and_samples_on_a_grid(models, conditions, samples, common, single):
    rng, runs = np.random.default_rng(samples), 40
    coverage, error = np.zeros(2), np.zeros(2)
    for _ in range(runs):
        planted = Planted(rng, models, conditions, samples, common, single)
        found = planted.fitted()
        coverage += [held(found.cells, planted.cells) / runs, held(found.samples, planted.samples) / runs]
        error += [((one - planted.cells) ** 2).mean() / runs for one in (found.cells[:, 0], planted.right.mean(axis=1))]
    print(f"{models} x {conditions} x {samples}: cells and samples held {100 * coverage} %, rmse {error**0.5}")

    assert coverage[0] >= 0.92 and coverage[1] >= 0.89 and (coverage <= 0.985).all()
    assert error[0] < error[1]


def test_samples_that_everybody_has_right_or_wrong_stay_finite_and_at_the_ends():
    planted = Planted(np.random.default_rng(3), models=4, conditions=3, samples=40)
    planted.right[:, 0], planted.right[:, 1] = 0, 1
    planted.right[:, 2] = np.where(np.arange(12) < 1, 1, 0)
    found = planted.fitted()

    assert found.difficulty[0] == found.difficulty.max() > found.difficulty[2]
    assert found.difficulty[1] == found.difficulty.min() > -6
    assert 0 < found.samples[0, 0] < 0.2 and np.isfinite(found.samples).all()


def test_models_of_one_condition_are_fitted_too():
    planted = Planted(np.random.default_rng(4), models=8, conditions=1, samples=200, single=0)
    found = planted.fitted()

    assert found.spread[1] == 0
    assert found.cells[:, 0] == pytest.approx(planted.cells, abs=0.09)
    assert spearmanr(found.difficulty, planted.difficulty)[0] > 0.75


@pytest.fixture(scope="module")
def three(demo_data, tmp_path_factory):
    """Three models of the registry, played by policies, and a baseline."""
    names = [name for name, model in registry().items() if model.backend != "builtin"][:3]
    backends = {name: Baseline(policy) for name, policy in zip(names, ("uniform", "guess", "oracle"), strict=True)}
    wanted = sweep(demo_data, [*names, "abstain"], ["zero-shot", "hint", "reference"])
    return played(tmp_path_factory.mktemp("difficulty") / "run", wanted, backends=backends)


def test_tables_hold_models_and_played_conditions_alone(three):
    found = difficulty(read(three))
    data = read(three)

    assert found.cells["model"].n_unique() == 3 and set(found.cells["condition"]) == {"zero-shot", "hint"}
    assert found.samples.height == sum(len(samples) for samples in data.samples.values())
    raw = found.cells.join(data.rows, on=["model", "scenario", "condition"], suffix="_row")
    assert raw["acc"].to_list() == pytest.approx(raw["acc_row"].to_list()) and raw["n"].equals(raw["scored"])
    assert found.samples.filter(pl.col("all_wrong") != (pl.col("right") == 0)).is_empty()
    for part in found.samples.partition_by("scenario"):
        assert part["difficulty"].round(6).is_sorted(descending=True) and part["expected"].round(6).is_sorted()
    examples = data.episodes.join(found.samples, left_on="key", right_on="example")
    assert examples.height == found.samples.height and examples["sample_id"].equals(examples["sample_id_right"])


def test_the_page_links_the_hardest_samples_to_episodes_that_it_holds(three):
    names = {path.name for path in write_tables(three)}
    page = write_page(three, episodes=60).read_text()
    shown = hard_samples(read(three))
    content = json.loads(page.split('id="content">')[1].split("</script>")[0])

    assert {"hard-samples.md", "hard-samples.csv", "shrunken.tex", "samples-difficulty.csv"} <= names
    assert len(shown.rows) == HARDEST * 7 and shown.rows[0][0].startswith("ROD ")
    keys = {entries[-1].episode for _, entries in shown.rows}
    assert keys <= {episode["key"] for episode in content["episodes"]}
    assert all(f'href="#episode={key}"' in page for key in keys)
    assert "nobody ever got" in page and ">Sample</button>" in page


def test_below_three_models_nothing_is_fitted(run_data):
    found = difficulty(run_data)

    assert found.cells.is_empty() and found.samples.is_empty() and not hard_samples(run_data).rows
