"""The table of clusters: how alike answers are within objects, pictures and videos, and what that does to intervals."""

from __future__ import annotations

from orchestrator.report.measures.clustering import WIDER, clustering
from orchestrator.report.run_data import AUTOMATIC, CLUSTERS, RunData
from orchestrator.report.tables.parts import Row
from orchestrator.report.tables.table import Column, Line, Table, TableCell, line

COLUMNS = (
    Column("scenario", number=False),
    Column("clusters", number=False),
    Column("number"),
    Column("largest", "samples of the largest cluster"),
    Column("icc", "intraclass correlation of right answers, over all cells of models"),
    Column("design effect", "variance of a mean over clusters, relative to independent samples"),
    Column("wider", "width of the interval over clusters, relative to the one over independent samples"),
    Column("counts", "whether intervals, tests and ranks are over these clusters", number=False),
)


def clustering_table(run_data: RunData) -> Table:
    """Return the clusters of each scenario that has any."""
    numbers = clustering(run_data)
    lines = tuple(_cluster_line(row) for row in numbers.iter_rows(named=True) if row["icc"] is not None)
    rule = {
        AUTOMATIC: f"intervals and tests are over clusters that widen them more than {WIDER} times (--independent: over samples)",
        "": "intervals and tests are over independent samples, as asked",
    }.get(run_data.cluster, f"intervals and tests are over {run_data.cluster}s, as asked")
    title = f"samples of one object, picture or video are answered alike: {rule}"
    return Table("clusters", title, COLUMNS, lines, numbers)


def _cluster_line(row: Row) -> Line:
    texts = (
        CLUSTERS[row["clustering"]][1],
        f"{row['clusters']:,} of {row['samples']:,}",
        f"{row['largest']:,}",
        f"{row['icc']:.2f}",
        f"{row['design_effect']:.1f}",
        f"{row['wider']:.2f}",
        "yes" if row["counts"] else "no",
    )
    return line(row["scenario"], map(TableCell, texts))
