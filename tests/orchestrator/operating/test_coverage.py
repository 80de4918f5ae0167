"""The command that measures the coverage of intervals runs, and intervals hold planted truths about as often as they say."""

from actors.playing.state_graph import build_graph
from envs.samples import load_samples
from sweeps.conditions import VARIANTS
from tests.orchestrator.operating.coverage import KINDS, coverage, plant


def test_intervals_hold_planted_values_of_samples_and_of_clusters(demo_data):
    graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(demo_data, "MVP-N")]
    for kind in ("samples", "clusters"):
        shares = coverage([plant(graphs, KINDS[kind])], 30, repeats=60)
        for name, (one, mean) in shares.items():
            assert one == mean, "the mean over one scenario is that scenario"
            assert one >= 0.85, (name, kind, one)
        assert sum(one for one, _ in shares.values()) < len(shares), (
            "intervals are not so wide that they hold everything"
        )
