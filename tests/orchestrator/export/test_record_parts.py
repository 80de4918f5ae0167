"""Parts of exported records, each by hand: where a model comes from, how a score is summed up, and what a log lists."""

import dataclasses
import json
from types import SimpleNamespace
from zipfile import ZipFile

import polars as pl
import pytest

from envs import SCENARIOS
from envs.errors import RunFolderError
from envs.samples import read_samples
from envs.types import Ending
from orchestrator.export import analyst_turns, every_eval_ever, inspect_log
from orchestrator.export.inspect_log import LONGEST_SUMMARY
from orchestrator.export.publish import Upload
from orchestrator.report.read_run import read_run
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec, Protocol
from tests.orchestrator.blocks import turn
from tests.orchestrator.report.runs import play_sweep, sweep

PACKAGES = {"vllm": "0.9"}


def model(**fields):
    return ModelSpec(**{"name": "m", "source": "Org/m", "backend": "vllm", **fields})


@pytest.mark.parametrize(
    ("fields", "number", "engine", "details"),
    [
        ({"revision": "abc"}, "Org/m", ("vllm", "0.9"),
         {"deployment_type": "self_deployed", "model_availability": "open_weights", "revision": "abc"}),
        ({"source": "/models/m", "backend": "transformers"}, "proactive-sweep/m", ("transformers", "unknown"),
         {"deployment_type": "self_deployed", "model_availability": "unknown"}),
        ({"source": "builtin:oracle", "backend": "builtin"}, "proactive-sweep/m", ("proactive-sweep", "unknown"),
         {"deployment_type": "self_deployed", "model_availability": "open_weights",
          "policy": "a built-in policy, no model"}),
    ],
)  # fmt: skip
def test_a_model_is_named_by_where_it_comes_from(fields, number, engine, details):
    info = every_eval_ever._model_info(model(**fields), PACKAGES)

    assert info == {
        "name": "m", "id": number, "inference_engine": {"name": engine[0], "version": engine[1]},
        "additional_details": details,
    }  # fmt: skip


def test_a_service_is_managed_by_others():
    service = SimpleNamespace(name="gpt", source="Org/gpt", backend="openai", revision="")

    info = every_eval_ever._model_info(service, {})
    assert (info["id"], info["additional_details"]) == (
        "endpoint/gpt", {"deployment_type": "externally_managed", "model_availability": "unknown"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "source"),
    [
        ("hf://lab/data@main/folder",
         {"source_type": "hf_dataset", "hf_repo": "lab/data", "samples_number": 7}),
        ("/some/where/benchmark",
         {"source_type": "other", "additional_details": {"folder": "benchmark", "samples": "7"}}),
        ("s3://bucket/folder",
         {"source_type": "other", "additional_details": {"folder": "folder", "samples": "7"}}),
    ],
)  # fmt: skip
def test_data_of_the_hub_are_a_data_set_and_others_a_folder(data, source):
    run = SimpleNamespace(sweep=SimpleNamespace(data=data))
    row = {"scenario": "QD", "condition": "hint", "protocol": "mcqa", "planned": 7}

    assert every_eval_ever._source_data(run, row) == {"dataset_name": "ProactiveBench QD", **source}
    assert every_eval_ever._evaluation_name(row) == "ProactiveBench QD (hint)"
    assert every_eval_ever._evaluation_name({**row, "protocol": "tools"}) == "ProactiveBench QD (hint, tools)"


def test_turns_become_messages_in_pairs():
    turns = [turn("k", 0, "left"), turn("k", 1, "B")]

    assert list(every_eval_ever._messages(turns[1], "What?")) == [
        {"turn_idx": 2, "role": "user", "content": "[ROD/1.jpg] What?"},
        {"turn_idx": 3, "role": "assistant", "content": "B"},
    ]
    assert next(every_eval_ever._messages(turns[0], ""))["content"] == "[ROD/0.jpg]"
    entry = {"extracted_value": "category", "extraction_method": "by hand"}
    assert every_eval_ever._attribution(turns, "by hand") == [
        {"turn_idx": 1, "source": "messages[1].content", **entry, "is_terminal": False},
        {"turn_idx": 3, "source": "messages[3].content", **entry, "is_terminal": True},
    ]


def test_a_record_that_does_not_fit_is_one_sentence():
    schema = every_eval_ever.Draft7Validator({"properties": {"a": {"type": "string"}}})
    every_eval_ever._validate(schema, {"a": "b"})

    with pytest.raises(RunFolderError) as refused:
        every_eval_ever._validate(schema, {"a": 1})
    assert str(refused.value) == "the run does not fit the schema of Every Eval Ever: $.a: 1 is not of type 'string'"


SAMPLE = {
    "id": "QD-0001", "epoch": 1, "input": "i" * 600, "target": "t" * 600, "metadata": {"key": "k"}, "messages": [1, 2, 3],
    "model_usage": {}, "started_at": "a", "completed_at": "b", "total_time": 0.5, "events": [],
    "scores": {"acc": {"value": "C", "answer": "x" * 600}},
}  # fmt: skip


def test_a_summary_cuts_long_texts_and_counts_messages():
    assert LONGEST_SUMMARY == 500
    assert inspect_log._summary(SAMPLE) == {
        "id": "QD-0001", "epoch": 1, "metadata": {"key": "k"}, "model_usage": {}, "started_at": "a", "completed_at": "b",
        "total_time": 0.5, "input": "i" * 500, "target": "t" * 500, "scores": {"acc": {"value": "C", "answer": "x" * 500}},
        "completed": True, "message_count": 3,
    }  # fmt: skip
    failed = {name: value for name, value in SAMPLE.items() if name != "scores"} | {"error": {"message": "e" * 600}}
    summary = inspect_log._summary({**failed, "choices": ["a"]})
    assert summary["error"] == "e" * 500 and summary["choices"] == ["a"] and "scores" not in summary


def test_a_judges_bits_become_scores():
    verdict = {"category": True, "suggestion": False, "aggregate": None, "text": "1,0"}

    assert inspect_log._judged_scores(verdict, "a cat") == {
        "category": {"value": "C", "answer": "a cat", "explanation": "1,0"},
        "suggestion": {"value": "I", "answer": "a cat", "explanation": "1,0"},
    }
    assert inspect_log._judged_scores({}, "a cat") == {}


def test_outputs_usage_and_metrics():
    messages = [{"role": "assistant", "n": 1}, {"role": "user"}, {"role": "assistant", "n": 2}]

    assert inspect_log._output("m", messages, {}) == {
        "model": "m", "choices": [{"message": {"role": "assistant", "n": 2}, "stop_reason": "stop"}], "usage": {},
    }  # fmt: skip
    assert inspect_log._output("m", messages[1:2], {})["choices"] == []
    assert every_eval_ever.token_usage(10, 3) == {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    assert inspect_log._metric("mean", 0.5) == {"name": "mean", "value": 0.5, "params": {}}
    assert inspect_log._metric("QD", 0.5, {"low": 0.4})["metadata"] == {"low": 0.4}


@pytest.fixture(scope="module")
def unfinished(demo_data, tmp_path_factory):
    """Five of ten planned episodes of tool calls, sampled."""
    wanted = sweep(
        demo_data, ["uniform"], ["hint"], scenarios=["QD"], protocol="tools", sampling={"temperature": 0.5, "top_k": 7}
    )
    return read_run(play_sweep(tmp_path_factory.mktemp("inspect") / "run", wanted, only=5))


def log_of(run, folder):
    inspect_log.write(run, folder, "a lab")
    (path,) = folder.glob("*.eval")
    with ZipFile(path) as log:
        return path.name, {name: json.loads(log.read(name)) for name in log.namelist()}


def test_an_unfinished_log_is_cancelled_and_has_its_decoding(unfinished, tmp_path):
    name, members = log_of(unfinished, tmp_path)
    header = members["header.json"]

    assert name.split("_")[1] == header["eval"]["task"] == "proactivebench-hint-tools"
    assert (
        header["status"] == "cancelled"
        and header["version"] == 2
        and header["stats"]["model_usage"].keys() == {"uniform"}
    )
    assert (header["results"]["total_samples"], header["results"]["completed_samples"]) == (10, 5)
    decoding = header["eval"]["model_generate_config"]
    assert (decoding["max_tokens"], decoding["temperature"], decoding["top_k"]) == (50, 0.5, 7)
    assert [score["name"] for score in header["results"]["scores"]] == ["acc", "ps"]
    acc = header["results"]["scores"][0]
    row = unfinished.rows.row(0, named=True)
    assert (acc["scored_samples"], acc["unscored_samples"]) == (5, 0)
    assert acc["metrics"]["mean"]["value"] == pytest.approx(row["acc"] / 100) == acc["metrics"]["QD"]["value"]
    assert acc["metrics"]["QD"]["metadata"] == pytest.approx(
        {"low": row["acc_low"] / 100, "high": row["acc_high"] / 100}
    )
    assert header["results"]["scores"][1]["metrics"]["QD"]["value"] == pytest.approx(row["ps"])
    assert len([member for member in members if member.startswith("samples/")]) == 5 == len(members["summaries.json"])


def test_an_episode_with_an_error_has_no_score(unfinished, tmp_path):
    first = unfinished.episodes["key"].sort()[0]
    chosen = pl.col("key") == first
    failed = unfinished.episodes.with_columns(
        ending=pl.when(chosen).then(pl.lit(str(Ending.FAILED))).otherwise("ending"),
        seconds=pl.when(chosen).then(float("inf")).otherwise("seconds"),
    )
    _, members = log_of(dataclasses.replace(unfinished, episodes=failed), tmp_path)
    samples = {sample["metadata"]["key"]: sample for name, sample in members.items() if name.startswith("samples/")}

    broken = samples.pop(first)
    assert broken["error"] == {"message": "failed", "traceback": "", "traceback_ansi": ""}
    assert "scores" not in broken and broken["total_time"] is None
    for key, sample in samples.items():
        row = failed.row(by_predicate=pl.col("key") == key, named=True)
        assert "error" not in sample and sample["id"] == f"QD-{row['sample_id']:04d}" and sample["epoch"] == 1
        assert sample["scores"]["ps"]["value"] == row["turns"] - 1
        assert sample["scores"]["acc"]["explanation"] == (
            f"The episode ended as {row['ending']!r} after {row['turns']} turns."
        )
        assert sample["scores"]["acc"]["value"] == ("C" if row["correct"] else "I") and "choices" not in sample
        assert [message["role"] for message in sample["messages"]] == ["user", "assistant"] * row["turns"]
        assert sample["messages"][0]["id"] == f"{key}/0/question" and sample["messages"][1]["id"] == f"{key}/0/reply"
        assert sample["messages"][1]["source"] == "generate" and sample["messages"][0]["source"] == "input"


def test_an_upload_is_summed_up_line_by_line(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x" * 1_200)
    files = {"a.csv": tmp_path / "a.csv"}

    assert list(Upload("lab/x", True, True, files, ("note",)).lines()) == [
        f"         1,200  a.csv  ({tmp_path / 'a.csv'})", "note",
        "1 files, 1,200 bytes, to the private data set lab/x (new)",
    ]  # fmt: skip
    assert list(Upload("lab/x", False, False, files).lines())[-1] == (
        "1 files, 1,200 bytes, to the PUBLIC data set lab/x (exists: files of the same name are replaced, others remain)"
    )


def test_columns_of_turns_are_described_in_their_order():
    described = analyst_turns.describe_columns()

    assert list(described)[:8] == [
        "model",
        "scenario",
        "condition",
        "protocol",
        "sample_id",
        "seed",
        "ending",
        "correct",
    ]
    assert list(described)[-4:] == ["question", "options", "categories", "answer"]
    assert described["answer"] == "The right category." and all(described.values())
    assert described["categories"] == "The categories of the sample, as in the benchmark."


def test_a_question_is_asked_as_its_protocol_asks_it(demo_data):
    (sample, *_), _ = read_samples(demo_data, "QD")
    view = SCENARIOS["QD"].view(sample, SCENARIOS["QD"].initial(sample))

    def ask(protocol, **fields):
        log = SimpleNamespace(protocol=protocol, condition=Condition(name="x", **fields), model=model())
        return inspect_log._Log._question(log, {"scenario": "QD"}, view)

    letters = ask(Protocol.MCQA)
    assert f"A. {view.options[0]}" in letters and sample.categories[0] in letters
    assert view.options[0] not in ask(Protocol.OEG) and ask(Protocol.OEG) == ask(Protocol.OEG_MULTI)
    assert "- answer(category: " in ask(Protocol.TOOLS) and "A. " not in ask(Protocol.TOOLS)
