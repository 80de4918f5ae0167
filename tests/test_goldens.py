"""Help and lists are as in tests/goldens; ``python -m tests.goldens`` writes them anew, and git shows what changed."""

from __future__ import annotations

import pytest

from tests.goldens import FOLDER, GOLDENS


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_text(name: str) -> None:
    assert GOLDENS[name]() == (FOLDER / name).read_text(encoding="utf-8")
