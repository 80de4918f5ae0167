"""``python -m tests.goldens`` writes every golden file anew."""

from tests.goldens import FOLDER, GOLDENS

for name, write in GOLDENS.items():
    (FOLDER / name).write_text(write(), encoding="utf-8")
