"""Speed cannot be lost unseen: bytecodes per episode stay near the numbers kept in the tree."""

import pytest

from tests.bench.bytecodes import ALLOWED, count_bytecodes, read_kept


@pytest.mark.skipif(not read_kept(), reason="bytecodes are kept for another version of Python")
def test_an_episode_takes_no_more_bytecodes_than_kept(tmp_path):
    counts = count_bytecodes(tmp_path)
    slower = {name: count for name, count in counts.items() if count > ALLOWED * read_kept()[name]}
    assert not slower, "make it cheaper, or run `python -m tests.bench.bytecodes --keep` in a commit that says why"
