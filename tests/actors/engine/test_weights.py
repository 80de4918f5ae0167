"""What identifies a checkpoint changes with every file that a model reads, and with nothing else."""

import hashlib
from pathlib import Path
from random import Random

import pytest

from actors.engine.weights import _setting_files as setting_paths
from actors.engine.weights import cached_commit, hash_folder, same_weights, setting_hashes, weights_identity
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


def test_one_byte_of_any_file_that_is_read_changes_the_hash_and_other_files_do_not(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    before = hash_folder(folder)
    for name in READ:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        assert hash_folder(folder) != before, name
        (folder / name).write_bytes(content)
    for name in OTHER:
        (folder / name).write_text("changed")
    (folder / "checkpoint-10").mkdir()

    assert hash_folder(folder) == before
    (folder / "generation_config.json").unlink()
    assert hash_folder(folder) != before


@pytest.mark.parametrize("tensor", ["norm", "middle"])
def test_every_tensor_is_in_the_identity_and_old_identities_still_match(tmp_path: Path, tensor: str) -> None:
    torch = pytest.importorskip("safetensors.torch", reason="the extra 'transformers' is not installed")
    from torch import ones

    sizes = {"large": 400_000, "norm": 8, "middle": 300_000, "last": 500_000}
    tensors = {name: ones(size) for name, size in sizes.items()}
    (tmp_path / "config.json").write_text("{}")
    torch.save_file(tensors, tmp_path / "model.safetensors")
    model = ModelSpec(name="m", source=str(tmp_path), backend="transformers")
    before, old = weights_identity(model), hash_folder(tmp_path)
    torch.save_file({**tensors, tensor: 0 * tensors[tensor]}, tmp_path / "model.safetensors")

    assert same_weights(before, before) and same_weights(old, before)
    assert not same_weights(before, weights_identity(model))


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


def test_the_hash_of_a_checkpoint_is_the_one_that_runs_have_stored(tmp_path: Path) -> None:
    """Of a large file, sixteen parts are read, and those only."""
    folder = checkpoint(tmp_path / "model")
    large = Random(7).randbytes(300) * 60_000
    (folder / READ[-2]).write_bytes(large)

    assert hash_folder(folder) == "sha256:4bbb7aa21af1ee7c9ba043d84c111ba2bf496171fd71acdfa52ed79a79a07cf2"


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


@pytest.mark.parametrize("end", ["0.5", "1" + "0" * 30])
def test_an_offset_that_no_file_has_is_no_error(tmp_path: Path, end: str) -> None:
    header = f'{{"a": {{"data_offsets": [0, {end}]}}}}'.encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"tensor")
    model = ModelSpec(name="m", source=str(tmp_path), backend="transformers")
    assert weights_identity(model).startswith("sha256:")
