"""The published train split, in the columns of its dataset card: rows are checked and fetched."""

import io

import polars as pl
import pytest
from PIL import Image

from envs.samples import BadData
from proactive_learn import train_split
from tests.orchestrator.datasets.test_download import fetch
from tests.orchestrator.hubserver import Hub, serving

OPTIONS = ["Add more details.", "I cannot tell.", "Cat.", "Dog.", "Sun.", "Car."]


def picture(shade):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def row(number=0, **changed):
    text = f"What is it? {number}\nA. Add more details.\nB. I cannot tell.\nC. Cat."
    return {
        "prompt": [{"content": [{"type": "image", "text": None}, {"type": "text", "text": text}], "role": "user"}],
        "ground_truth": "Cat.", "proactive_actions": ["Add more details."], "options": OPTIONS,
        "images": [{"bytes": picture(number), "path": None}], "qwen_conf": 0.5, **changed,
    }  # fmt: skip


def write(folder, rows, name="train-00000-of-00001.parquet"):
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(folder / name)
    return folder


BAD = {
    "a foreign truth": ({"ground_truth": "Bus."}, "the ground truth 'Bus.' is not among its options"),
    "two pictures": ({"images": [{"bytes": picture(1), "path": None}] * 2}, "holds 2 pictures"),
    "no words": ({"prompt": [{"content": [{"type": "image", "text": None}], "role": "user"}]}, "its prompt has"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named(name, tmp_path):
    changed, message = BAD[name]
    write(tmp_path, [row()])
    write(tmp_path, [row(1, **changed)], "train-00001-of-00001.parquet")

    with pytest.raises(BadData, match=rf"^row 1 of the split \(train-00001-of-00001\.parquet\): {message}"):
        train_split.check_split(tmp_path)


def test_incomplete_split_is_refused(tmp_path):
    write(tmp_path, [row()])

    assert train_split.check_split(tmp_path, expected=1) == 1
    with pytest.raises(BadData, match="holds 1 rows, and the published train split 26,879"):
        train_split.check_split(tmp_path)
    with pytest.raises(BadData, match="holds no train-"):
        train_split.check_split(tmp_path / "nowhere")
    pl.DataFrame({"prompt": ["x"]}).write_parquet(tmp_path / "train-00001.parquet")
    with pytest.raises(BadData, match="has no column 'ground_truth'"):
        train_split.check_split(tmp_path)


@pytest.mark.slow
def test_data_fetch_downloads_split_and_counts_rows(tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    write(tmp_path / "hub/data", [row(k) for k in range(3)])
    write(tmp_path / "here/train", [row()], "train-00000-of-00002.parquet")  # of another commit
    with serving(Hub(tmp_path / "hub", train_split.DATASET)) as hub:
        done = fetch(hub, tmp_path / "here", command="split")

    fetched = tmp_path / "here/train/train-00000-of-00001.parquet"
    assert list(fetched.parent.glob("*.parquet")) == [fetched]
    assert fetched.read_bytes() == (tmp_path / "hub/data/train-00000-of-00001.parquet").read_bytes()
    assert done.returncode == 2 and "holds 3 rows, and the published train split 26,879" in done.stderr
