"""Conversations in the formats of chat templates and services; a fixed date replaces the template's clock."""

from base64 import b64decode
from io import BytesIO

from PIL import Image, ImageChops, ImageStat

from actors.engine.backend import Message
from actors.engine.chat_format import conversation, data_url, template_variables, with_picture_marks
from envs.types import ImageRef


def test_today_becomes_the_clock_of_the_template() -> None:
    variables = template_variables({"today": "2026-11-01", "enable_thinking": False})

    clock = variables.pop("strftime_now")
    assert (clock("%Y-%m-%d"), clock("%d %b %Y")) == ("2026-11-01", "01 Nov 2026")
    assert variables == {"enable_thinking": False} == template_variables(variables)


MESSAGES = (Message("user", "Which?", (ImageRef("a"), ImageRef("b"))), Message("assistant", "A"))


def test_pictures_come_before_the_text() -> None:
    def part(ref: ImageRef) -> dict[str, str]:
        return {"picture": ref.path}

    pictures = [{"picture": "a"}, {"picture": "b"}]
    first = {"role": "user", "content": [*pictures, {"type": "text", "text": "Which?"}]}
    assert conversation(MESSAGES, part) == [first, {"role": "assistant", "content": [{"type": "text", "text": "A"}]}]
    assert conversation(MESSAGES, part, plain=True) == [first, {"role": "assistant", "content": "A"}]
    assert with_picture_marks(MESSAGES, "<image>") == [
        {"role": "user", "content": "<image><image>Which?"}, {"role": "assistant", "content": "A"},
    ]  # fmt: skip


def opened(url: str) -> Image.Image:
    return Image.open(BytesIO(b64decode(url.partition(",")[2])))


def test_a_jpeg_keeps_the_colors_of_every_pixel() -> None:
    """Quality 95 without subsampling: a checkerboard of red and blue stays one, a table of 95 has a first value of 2."""
    board = Image.new("RGB", (16, 16), "red")
    board.paste(
        "blue", mask=Image.frombytes("L", (16, 16), bytes(255 * ((x + y) % 2) for x in range(16) for y in range(16)))
    )
    url = data_url(board, "jpeg")
    picture = opened(url)

    assert url.startswith("data:image/jpeg;base64,/9j/") and picture.format == "JPEG"
    assert ImageStat.Stat(ImageChops.difference(picture.convert("RGB"), board)).mean < [12, 12, 12]
    assert picture.quantization[0][0] == 2 and picture.layer[0][1:3] == (1, 1)  # type: ignore[attr-defined]
    assert (
        data_url(board).startswith("data:image/png;base64,iVBOR")
        and opened(data_url(board)).tobytes() == board.tobytes()
    )
