"""What an attempt ran with is named exactly, and an unknown version fails nothing."""

import subprocess

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
