"""What identifies a checkpoint changes with every file that a model reads, and with nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random

import pytest

from actors.engine.weights import (
    SAMPLE_BYTES,
    SAMPLES,
    cached_commit,
    comes_from_hub,
    hash_folder,
    is_pinned,
    loaded_weights,
    local_adapter,
    setting_hashes,
    weights_identity,
)
from actors.engine.weights import _setting_files as setting_paths
from proactive_demo.embedded import EMBEDDED
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


def test_the_settings_of_every_kind_of_checkpoint_are_read(tmp_path: Path) -> None:
    """Names of files as the checkpoints of Qwen, LLaVA, InternVL, Mistral and MiniCPM have them."""
    names = (
        "added_tokens.json", "chat_template.json", "chat_template.jinja", "config.json", "configuration_internvl_chat.py",
        "generation_config.json", "image_processing_minicpmv.py", "merges.txt", "model.safetensors.index.json",
        "modeling_internvl_chat.py", "other.jinja", "preprocessor_config.json", "processing_minicpmv.py",
        "qwen.tiktoken", "special_tokens_map.json", "spiece.model", "tekken.json", "tokenizer.json", "tokenization.py",
        "vocab.txt",
    )  # fmt: skip
    for name in (*names, "README.md", "model.safetensors"):
        (tmp_path / name).write_text(name)
    (tmp_path / "old_config.json").mkdir()
    model = ModelSpec(name="m", source=str(tmp_path))

    read = set(names) - {"tokenization.py"}
    assert setting_hashes(model) == {name: hashlib.sha256(name.encode()).hexdigest() for name in read}
    assert [path.name for path in setting_paths(tmp_path)] == sorted(read)
    assert setting_hashes(ModelSpec(name="m", source="/not/there")) == {}


def test_the_hash_is_that_of_names_sizes_and_contents(tmp_path: Path) -> None:
    """A file that is shorter than a part is read sixteen times in one place, so once; safetensors replace other weights."""
    files = {"config.json": b"{}", "a.safetensors": b"12345", "b.safetensors": b"", "c.bin": b"1", "d.gguf": b"2"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.safetensors").mkdir()

    whole = b"config.json 2\n{}" + b"a.safetensors 5\n12345" + b"b.safetensors 0\n"
    assert hash_folder(tmp_path) == f"sha256:{hashlib.sha256(whole).hexdigest()}"
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).unlink()
    for name in ("e.pt", "f.onnx"):
        (tmp_path / name).write_bytes(b"3")
    others = b"config.json 2\n{}" + b"c.bin 1\n1" + b"d.gguf 1\n2" + b"e.pt 1\n3"
    assert hash_folder(tmp_path) == f"sha256:{hashlib.sha256(others).hexdigest()}"


@pytest.mark.parametrize("backend", ["vllm", "transformers", "openai"])
def test_a_source_is_of_the_hub_unless_it_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own/model").mkdir(parents=True)
    (tmp_path / "own/model/config.json").write_text("{}")

    def of(source: str) -> ModelSpec:
        return ModelSpec(name="m", source=source, backend=backend)

    local = backend != "openai"
    assert comes_from_hub(of("org/name")) is local
    for source in ("own/model", "./absent", "/absent/model", EMBEDDED):
        assert comes_from_hub(of(source)) is False
    assert (weights_identity(of("own/model")) == hash_folder(tmp_path / "own/model")) is local


def test_an_adapter_is_looked_for_beside_the_program_and_in_the_model_s_folder(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "model")
    (model / "adapters").mkdir()
    (model / "adapters" / "adapter_model.safetensors").write_bytes(b"1")
    plain = ModelSpec(name="m", source=str(model))
    entry = plain.model_copy(update={"lora": "adapters"})

    assert local_adapter(entry) == model / "adapters" and local_adapter(plain) is None
    assert weights_identity(entry) == f"{hash_folder(model)}+{hash_folder(model / 'adapters')}"
    assert weights_identity(plain) == weights_identity(plain.model_copy(update={"lora": "org/adapter"}))
    absent = plain.model_copy(update={"source": "org/absent", "lora": str(model / "adapters")})
    assert weights_identity(absent) == "", "an adapter alone identifies no model"


def test_models_without_an_identity_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = checkpoint(tmp_path / "model")
    models = [
        ModelSpec(name="local", source=str(folder)),
        ModelSpec(name="absent", source="org/name"),
        ModelSpec(name="policy", source="builtin:oracle", backend="builtin"),
    ]

    assert loaded_weights(models) == {"local": hash_folder(folder)}


def test_a_commit_counts_only_if_its_snapshot_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    cached(tmp_path)
    model = ModelSpec(name="m", source="org/name")
    reference = tmp_path / "models--org--name/refs/main"

    for text, commit in ((f"{COMMITS[0]}\n", COMMITS[0]), (COMMITS[1], ""), ("main", ""), (f"{COMMITS[0]}0", "")):
        reference.write_text(text)
        assert cached_commit(model) == commit
    reference.write_bytes("ü".encode())
    assert cached_commit(model) == ""
    (tmp_path / "models--org--name/snapshots/main").mkdir()
    reference.write_text("main")
    assert cached_commit(model) == "", "a branch is no commit"
