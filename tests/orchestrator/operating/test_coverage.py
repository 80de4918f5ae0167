"""The command that measures the coverage of intervals runs, and intervals hold planted truths about as often as they say."""

from actors.playing.state_graph import build_graph
from envs.samples import load_samples
from orchestrator.report.measures.operating_points import RARE
from sweeps.conditions import VARIANTS
from tests.orchestrator.operating.coverage import LIKE, coverage, plant


def test_intervals_hold_planted_values_of_samples_and_of_clusters(demo_data):
    graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(demo_data, "MVP-N")]
    for alike in (False, True):
        shares = coverage([plant(graphs, alike)], 30, LIKE if alike else 1, repeats=60)
        for name, (one, mean) in shares.items():
            assert one == mean, "the mean over one scenario is that scenario"
            assert name in RARE or one >= 0.85, (name, alike, one)
        assert sum(one for one, _ in shares.values()) < len(shares), (
            "intervals are not so wide that they hold everything"
        )
