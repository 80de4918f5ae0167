"""Speed cannot be lost unseen: bytecodes per episode stay near the numbers kept in the tree."""

import subprocess
import sys

import pytest

from tests.bench.bytecodes import read_kept


@pytest.mark.skipif(not read_kept(), reason="bytecodes are kept for another version of Python")
def test_an_episode_takes_no_more_bytecodes_than_kept():
    done = subprocess.run([sys.executable, "-m", "tests.bench.bytecodes"], capture_output=True, text=True)
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}make it cheaper, or run `python -m tests.bench.bytecodes --keep` in a commit that says why"
    )
