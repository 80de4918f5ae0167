"""The certificates of a run: sentences below its tables, and a table of their own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from actors.text.printable import list_first
from orchestrator.inspection.certificate import footnotes, read_certificates
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.table import Table
from sweeps.spec import Sweep

COLUMNS = dict.fromkeys(("model", "engine", "certificate", "outcome", "weights"), pl.String)
NO_CERTIFICATE = "missing"
"""Status of a model without a certificate."""


def input_notes(sweep: Sweep, folder: Path) -> list[str]:
    """Return sentences on what extends the paper's protocol, and on models whose input is not certified to be the package's."""
    extensions = f"Extensions of the paper's protocol: {list_first(sweep.extensions)}."
    return [*([extensions] if sweep.extensions else []), *footnotes(sweep.models, read_certificates(folder))]


def add_notes(table: Table, notes: Sequence[str]) -> Table:
    """Return the table with these sentences below its own notes."""
    return replace(table, notes=(*table.notes, *notes)) if notes else table


def certificate_rows(run_data: RunData) -> pl.DataFrame:
    """Return one row per model that has a certificate or needs one: the status and outcome of its certificate (``COLUMNS``)."""
    certificates = read_certificates(run_data.folder)
    rows = []
    for model in run_data.sweep.models:
        if certificate := certificates.get(model.name):
            outcome, weights = certificate.describe(), certificate.weights
            rows.append((model.name, model.backend, certificate.status, outcome, weights))
        elif model.is_local:
            rows.append((model.name, model.backend, NO_CERTIFICATE, "", ""))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")
