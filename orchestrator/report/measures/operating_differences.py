"""Why exact values may differ from played ones: the kinds of played replies that option probabilities do not cover."""

from __future__ import annotations

from actors.playing.state_graph import option_forms
from envs.reply_kinds import KINDS
from orchestrator.report.measures.operating_curves import condition_graph, operating_cells
from orchestrator.report.measures.reply_kinds import reply_kinds
from orchestrator.report.run_data import RunData


def covered_share(run_data: RunData, model: str, scenario: str, condition: str) -> float | None:
    """Return the percentage of played replies that are a scored form of an option of their sample; None without replies."""
    cell = next((c for c in operating_cells(run_data) if (c.model, c.scenario) == (model, scenario)), None)
    if cell is None:
        return None
    source = run_data.conditions[cell.condition]
    forms = {
        sample.id: {
            form
            for question in condition_graph(run_data, sample, source).questions
            for option in range(len(question.options))
            for form in option_forms(question, option)
        }
        for sample in cell.samples
    }
    episodes = run_data.episodes.filter(model=model, scenario=scenario, condition=condition, protocol="mcqa")
    turns = run_data.select_turns(episodes).join(episodes.lazy().select("key", "sample_id"), on="key").collect()
    replies = list(turns.select("sample_id", "reply").iter_rows())
    covered = [reply.strip() in forms[sample] for sample, reply in replies if sample in forms]
    return 100 * sum(covered) / len(covered) if covered else None


def explain_difference(run_data: RunData, model: str, scenario: str, condition: str) -> str:
    """Return what the played replies of a cell are that exact values do not count, as part of a sentence."""
    covered = covered_share(run_data, model, scenario, condition)
    parts = [] if covered is None else [f"{100 - covered:.1f}% of its replies are in another form than the scored ones"]
    kinds = reply_kinds(run_data)
    if kinds.height:
        for row in kinds.filter(model=model, scenario=scenario, condition=condition).iter_rows(named=True):
            parts += [f"{name}: {row[kind]:.1f}%" for kind, name in KINDS.items() if row[kind]]
    return "; ".join(parts)
