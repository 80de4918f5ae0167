"""What an attempt ran with is named exactly, and an unknown version fails nothing."""

import importlib.metadata
import subprocess

import polars as pl

from orchestrator.storage import software


def git(folder, *words):
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *names, "-C", folder, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_is_that_of_the_checkout_and_says_if_files_differ(tmp_path, monkeypatch):
    module = tmp_path / "orchestrator/storage/software.py"
    module.parent.mkdir(parents=True)
    module.write_text("one")
    monkeypatch.setattr(software, "__file__", str(module))
    assert software.commit() is None, "no checkout"
    git(tmp_path, "init", "-q")
    assert software.commit() is None, "no commit yet"
    git(tmp_path, "add", "-A"), git(tmp_path, "commit", "-qm", "x"), git(tmp_path, "tag", "-am", "v1", "v1")

    head = git(tmp_path, "rev-parse", "HEAD")
    assert len(head) == 40 and software.commit() == head
    module.write_text("two")
    assert software.commit() == f"{head}-dirty"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert software.commit() is None, "no git on this machine"


def test_installed_packages_are_named_and_unknown_ones_left_out(monkeypatch):
    assert software.versions()["polars"] == pl.__version__
    assert software.versions().keys() >= {"ray", "polars", "pillow", "numpy", "scipy"}
    monkeypatch.setattr(software, "PACKAGES", ("no-such-package", "numpy"))
    assert "numpy" in software.versions() and "no-such-package" not in software.versions()


def test_every_package_that_shapes_answers_or_figures_is_asked_for(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")

    assert software.versions().keys() >= {
        "proactive-sweep", "ray", "polars", "mlflow", "pillow", "numpy", "scipy", "vllm", "torch", "transformers", "openai",
    }  # fmt: skip


def test_the_version_is_the_installed_one_or_says_that_it_is_unknown(monkeypatch):
    def refuse(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"9.9 of {name}")
    assert software.version() == "9.9 of proactive-sweep"
    monkeypatch.setattr(importlib.metadata, "version", refuse)
    assert software.version() == "0+unknown"
