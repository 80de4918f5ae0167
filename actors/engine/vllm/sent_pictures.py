"""The pictures of a rendered prompt, and how many of them the engine already has."""

from typing import Any, NamedTuple


class SentPictures(NamedTuple):
    """The pictures of one prompt."""

    pictures: int
    cached: int
    """Pictures in the engine's cache: they are neither preprocessed nor sent again."""


def count_pictures(prompt: Any) -> SentPictures:
    """Count the pictures of a rendered prompt, in which a cached picture has no pixels."""
    pictures = prompt.get("mm_kwargs", {}).get("image", ())
    return SentPictures(len(pictures), sum(picture is None for picture in pictures))
