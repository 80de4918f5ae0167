"""The headlines of the page are whole sentences, with the figures of the run's own tables."""

import re

import pytest

from orchestrator.report.html.findings import find_headlines
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.runs import write_published_run

MODELS = ["internvl3-1b", "gpt-4.1", "phi-4-multimodal"]
INTERVAL = r"95% interval ([+−]?[\d.]+) to ([+−]?[\d.]+)"


def match_finding(findings, pattern: str) -> tuple[str, re.Match]:
    """Return figure and match of the one finding whose whole sentence fits."""
    fitting = [(figure, match) for figure, text in findings if (match := re.fullmatch(pattern, text))]
    assert len(fitting) == 1, [text for _, text in findings]
    return fitting[0]


@pytest.fixture(scope="module")
def of_models(tmp_path_factory):
    """A run of three models, and its headlines."""
    folder = tmp_path_factory.mktemp("models") / "run"
    run_data = read_run(write_published_run(folder, [*MODELS, "uniform"], ("zero-shot", "hint", "reference"), most=6))
    return run_data, find_headlines(run_data)


@pytest.fixture(scope="module")
def of_baselines(run_data):
    return run_data, find_headlines(run_data)


def best_rows(run_data, names):
    rows = estimate(run_data).averages.filter(condition="zero-shot", protocol="mcqa")
    return rows.filter(rows["model"].is_in(names)).sort("acc", "model", descending=[True, False]).to_dicts()


def test_the_best_model_is_named_with_its_interval_and_the_next(of_models):
    run_data, findings = of_models
    first, second, _ = best_rows(run_data, MODELS)
    figure, match = match_finding(
        findings,
        rf"is the zero-shot accuracy of {first['model']}, the best model: mean over the seven scenarios, {INTERVAL}\. "
        rf"Next is {second['model']} with {second['acc']:.1f}%\. On the same samples of 3 (.+), and it is "
        rf"above {second['model']} with probability (\d+)%: ([+−][\d.]+) points, {INTERVAL}\.",
    )
    ranked = ranking(run_data).filter(protocol="mcqa").sort("rank").row(0, named=True)

    assert figure == f"{first['acc']:.1f}%" and match[5] == f"+{ranked['difference']:.1f}"
    assert (match[1], match[2]) == (f"{first['acc_low']:.1f}", f"{first['acc_high']:.1f}")
    high = ranked["rank_high"]
    assert match[3] == ("its rank is 1" if high == 1 else f"ranks 1 to {high} are not excluded")


def test_the_best_baseline_is_not_called_a_model(of_baselines):
    run_data, findings = of_baselines
    first, second = best_rows(run_data, run_data.baselines - {"oracle"})[:2]
    figure, match = match_finding(
        findings,
        rf"is the zero-shot accuracy of {first['model']}, the best baseline that does not know the answers: mean over the "
        rf"seven scenarios, {INTERVAL}\. Next is {second['model']} with {second['acc']:.1f}%\. On the same samples it is the "
        rf"best of (\d+) with probability \d+% \((?:its rank is 1|ranks 1 to \d+ are not excluded)\), and above "
        rf"{second['model']} with probability \d+%: [+−][\d.]+ points, {INTERVAL}\.",
    )
    assert figure == f"{first['acc']:.1f}%" and match[3] == str(len(run_data.baselines - {"oracle"}))


def test_chance_counts_the_models_above_and_below_it(of_models, of_baselines):
    for (run_data, findings), kind in ((of_models, "model"), (of_baselines, "baseline")):
        figure, match = match_finding(
            findings,
            r"is the accuracy of choosing blindly among the options \(policy uniform\)\. Of (\d+) other (\w+?)s the interval "
            r"lies above it for (?:none|(\d+) \((.+)\)) and below it for (?:none|(\d+) \((.+)\))\.",
        )
        names = MODELS if kind == "model" else run_data.baselines - {"oracle", "uniform"}
        level = float(figure.rstrip("%"))
        rows = best_rows(run_data, names)
        above = {row["model"] for row in rows if row["acc_low"] > level}
        below = {row["model"] for row in rows if row["acc_high"] < level}
        assert (match[1], match[2]) == (str(len(rows)), kind)
        assert [set((match[at] or "").split(", ")) - {""} for at in (4, 6)] == [above, below]
        assert [int(match[at] or 0) for at in (3, 5)] == [len(above), len(below)]


def test_clear_images_and_questions_are_summed_up(of_models):
    run_data, findings = of_models
    rows = best_rows(run_data, MODELS)
    figure, match = match_finding(
        findings, r"points from the clear image \(([\d.]+)%\) to zero-shot \(([\d.]+)%\), means over 3 models\."
    )
    play = sum(row["acc"] for row in rows) / 3
    assert match[2] == f"{play:.1f}"
    change = round(float(match[2]) - float(match[1]), 1)
    assert abs(float(figure.replace("−", "-")) - change) < 0.11 and change < 0

    few, most = min(rows, key=lambda row: row["ps"]), max(rows, key=lambda row: row["ps"])
    figure, _ = match_finding(
        findings,
        rf"suggestions per episode is the zero-shot range: {few['model']} asks least, {most['model']} most "
        rf"\({most['loops']:.0f}% of its episodes end at the turn limit\)\.",
    )
    assert figure == f"{few['ps']:.1f}–{most['ps']:.1f}"


def test_changes_failures_and_unparsable_replies_are_shares_of_what_was_played(of_models, of_baselines):
    for (run_data, findings), kind, names in (
        (of_models, "the models'", MODELS),
        (of_baselines, "the baselines'", run_names(of_baselines)),
    ):
        rows = run_data.rows.filter(run_data.rows["model"].is_in(list(names)))
        figure, _ = match_finding(
            findings,
            r"cells differ significantly in accuracy from zero-shot on the same samples \(exact McNemar, Holm over all\)\.",
        )
        cells = rows.filter(rows["protocol"] == "mcqa", ~rows["condition"].is_in(["zero-shot", "reference"]))
        assert figure == f"0 of {cells.height}", "the clear image is no way to play"
        figure, match = match_finding(
            findings,
            rf"of {kind} ([\d,]+) scored episodes ended with a reply that the benchmark cannot parse \(([\d,]+)\); a lenient "
            r"reader would have understood ([\d,]+) of them\.",
        )
        scored, unparsable, readable = (int(match[at].replace(",", "")) for at in (1, 2, 3))
        assert scored == rows["scored"].sum() and readable <= unparsable
        assert figure == f"{100 * unparsable / scored:.1f}%"
        figure, match = match_finding(
            findings,
            r"of the (\d+) zero-shot episodes that did not succeed ([a-z ]+)\. Next: ([a-z ]+) \(([\d.]+)%\), ([a-z ]+) "
            r"\(([\d.]+)%\)\.",
        )
        assert float(figure.rstrip("%")) >= float(match[4]) >= float(match[6])
        assert len({match[2], match[3], match[5]}) == 3 and int(match[1]) < rows["scored"].sum()


def run_names(of_baselines) -> set[str]:
    return set(of_baselines[0].baselines)


def test_one_model_alone_has_no_rank_and_no_range(tmp_path):
    run_data = read_run(write_published_run(tmp_path / "run", ["gpt-4.1", "oracle"], ("zero-shot",), most=3))
    findings = find_headlines(run_data)

    match_finding(
        findings,
        rf"is the zero-shot accuracy of gpt-4\.1, the only model: mean over the seven scenarios, {INTERVAL}\.",
    )
    match_finding(
        findings,
        r"suggestions per episode is the mean of gpt-4\.1, zero-shot, with \d+% of the episodes ending at the turn limit\.",
    )
    match_finding(findings, r"of the models' 21 scored episodes ended with a reply that the benchmark cannot parse\.")
