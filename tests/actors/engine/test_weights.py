"""What identifies a checkpoint changes with every file that a model reads, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from actors.embedded import EMBEDDED
from actors.engine.weights import SAMPLE_BYTES, SAMPLES, cached_commit, hash_folder, is_pinned, weights_identity
from actors.engine.weights import _setting_files as setting_paths
from sweeps.spec import ModelSpec

READ = (
    "config.json", "preprocessor_config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json",
    "chat_template.jinja", "chat_template.json", "generation_config.json", "model.safetensors.index.json", "vocab.json",
    "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "modeling_own.py",
)  # fmt: skip
OTHER = ("README.md", "trainer_state.json", "training_args.bin", "optimizer.pt", "__init__.py")
COMMITS = ("1" * 40, "2" * 40)


def checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for number, name in enumerate((*READ, *OTHER)):
        (folder / name).write_bytes(Random(number).randbytes(300))
    return folder


def cached(cache: Path, commit: str = COMMITS[0], revision: str = "main") -> None:
    """Put a commit of org/name into the Hub's cache, as its latest of this revision."""
    model = cache / "models--org--name"
    (model / "snapshots" / commit).mkdir(parents=True)
    (model / "refs" / revision).parent.mkdir(parents=True, exist_ok=True)
    (model / "refs" / revision).write_text(commit)


@pytest.mark.parametrize("name", READ)
def test_one_byte_of_any_file_that_is_read_changes_the_hash(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path / "model")
    before = hash_folder(folder)
    content = bytearray((folder / name).read_bytes())
    content[100] ^= 1
    (folder / name).write_bytes(content)

    assert before.startswith("sha256:") and len(before) == 7 + 64
    assert hash_folder(folder) != before


def test_other_files_change_nothing(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    before = hash_folder(folder)
    for name in OTHER:
        (folder / name).write_text("changed")
    (folder / "checkpoint-10").mkdir()

    assert hash_folder(folder) == before
    (folder / "generation_config.json").unlink()
    assert hash_folder(folder) != before


def test_weights_of_the_same_size_are_told_apart_by_parts_of_them(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    size = 2 * SAMPLES * SAMPLE_BYTES
    (folder / READ[-2]).write_bytes(bytes(size))
    before = hash_folder(folder)
    (folder / READ[-2]).write_bytes(Random(0).randbytes(size))

    assert hash_folder(folder) != before


def test_a_cached_model_is_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model, branch = (ModelSpec(name="m", source="org/name", revision=revision) for revision in ("", "refs/pr/7"))

    assert (weights_identity(model), cached_commit(branch)) == ("", "")
    cached(tmp_path)
    cached(tmp_path, COMMITS[1], "refs/pr/7")
    assert (weights_identity(model), weights_identity(branch)) == COMMITS
    assert [cached_commit(model.model_copy(update={"revision": c})) for c in (COMMITS[1], "3" * 40)] == [COMMITS[1], ""]
    (tmp_path / "models--org--name/refs/main").write_text("../../outside")
    assert weights_identity(model) == ""


def test_an_adapter_in_a_folder_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    cached(tmp_path / "hub")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"1")
    model = ModelSpec(name="m", source="org/name", lora=str(adapter))
    before = weights_identity(model)
    (adapter / "adapter_model.safetensors").write_bytes(b"2")

    assert before.startswith(f"{COMMITS[0]}+sha256:")
    assert weights_identity(model) != before


def test_models_without_weights_and_with_their_own_have_nothing_to_pin(tmp_path: Path) -> None:
    service = ModelSpec(name="s", source="gpt", backend="openai")
    embedded = ModelSpec(name="e", source=EMBEDDED, backend="transformers")
    folder = ModelSpec(name="f", source=str(tmp_path))

    assert all(map(is_pinned, (service, embedded, folder, folder.model_copy(update={"source": "/not/there"}))))
    assert weights_identity(service) == "" and weights_identity(embedded).startswith("sha256:")
    assert not is_pinned(ModelSpec(name="h", source="org/name"))
    assert not is_pinned(ModelSpec(name="h", source="org/name", revision="refs/pr/70"))
    assert is_pinned(ModelSpec(name="h", source="org/name", revision=COMMITS[0]))


def test_the_hash_of_a_checkpoint_is_the_one_that_runs_have_stored(tmp_path: Path) -> None:
    """Of a large file, sixteen parts are read, and those only."""
    folder = checkpoint(tmp_path / "model")
    large = Random(7).randbytes(300) * 60_000
    (folder / READ[-2]).write_bytes(large)

    assert hash_folder(folder) == "sha256:4bbb7aa21af1ee7c9ba043d84c111ba2bf496171fd71acdfa52ed79a79a07cf2"


def test_without_safetensors_other_weights_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"1")
    before = hash_folder(folder)
    (folder / "pytorch_model.bin").write_bytes(b"2")

    assert hash_folder(folder) != before
    assert [path.name for path in setting_paths(checkpoint(tmp_path / "other"))] == sorted(
        name for name in READ if "safetensors" not in name or name.endswith("index.json")
    )
