"""CPU seconds of exact values: ``python -m tests.orchestrator.operating.speed``.

Measured on planted policies over the demo's samples, then scaled to the numbers of samples that the paper evaluates.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from actors.playing.state_graph import build_graph
from envs import SCENARIOS
from envs.samples import load_samples, paper_ids
from orchestrator.operating.policy import BIASES
from orchestrator.operating.summary import summarize
from orchestrator.operating.values import sample_values
from proactive_demo.drawing import draw
from sweeps.conditions import VARIANTS
from tests.orchestrator.operating.planted import planted

SAMPLES, ORDERS = 30, 5


def main() -> None:
    totals = {"one curve": 0.0, "graphs": 0.0, "summary": 0.0}
    paper = dict(totals)
    with TemporaryDirectory() as folder:
        draw(Path(folder), samples=SAMPLES * 7, seed=3)
        for name in SCENARIOS:
            start = process_time()
            graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(Path(folder), name)]
            built = process_time()
            policies = [planted(graph, Random(1)) for graph in graphs]
            ready = process_time()
            for graph, policy in zip(graphs, policies, strict=True):
                sample_values(graph, policy)
            walked = process_time()
            summarize([(graphs, policies)] * ORDERS)
            seconds = {
                "one curve": walked - ready,
                "graphs": ORDERS * (built - start),
                "summary": process_time() - walked,
            }
            for part, value in seconds.items():
                totals[part] += value
                paper[part] += value * len(paper_ids()[name]) / SAMPLES
    print(f"{SAMPLES * 7} samples, {len(BIASES)} biases: one curve {totals['one curve']:.2f} CPU s")
    print(
        f"the paper's {sum(map(len, paper_ids().values())):,} samples: one curve {paper['one curve']:.0f} CPU s; both families, "
        f"bounds and {ORDERS} orders {paper['summary']:.0f} CPU s a model, and once {paper['graphs']:.0f} CPU s for graphs"
    )


if __name__ == "__main__":
    main()
