"""Percentages of what the engines had before: over the episodes that report them, and null if none does."""

from orchestrator.storage import engine_cache
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.blocks import block, episode

A, B, C = "a/ROD/hint", "b/ROD/hint", "c/ROD/hint"


def folder(path):
    store = EpisodeStore(path)
    store.append(
        block(
            [
                episode(1, cell=B, prompt_tokens=100, cached_tokens=10, pictures=4, cached_pictures=3),
                episode(2, cell=B, prompt_tokens=300, cached_tokens=90, pictures=4, cached_pictures=None),
                episode(3, cell=B, prompt_tokens=500, cached_tokens=None, pictures=None, cached_pictures=None),
                episode(4, cell=A, prompt_tokens=100, cached_tokens=0, pictures=0, cached_pictures=0),
                episode(5, cell=C, prompt_tokens=100),
            ]
        )
    )
    store.close()
    return path


def test_percentages_are_of_the_episodes_with_a_report(tmp_path):
    assert list(engine_cache.percentages_by(folder(tmp_path)).items()) == [
        (A, {"prompt_cached": 0.0, "pictures_cached": None}),
        (B, {"prompt_cached": 25.0, "pictures_cached": 75.0}),
    ]


def test_models_that_reused_something_get_a_sentence(tmp_path):
    assert engine_cache.sentences(folder(tmp_path)) == [
        "b: 25% of prompt tokens from the engine's cache, 75% of pictures preprocessed before"
    ]
    assert engine_cache.describe_percentages({"prompt_cached": None, "pictures_cached": 33.4}) == (
        "33% of pictures preprocessed before"
    )
    assert engine_cache.describe_percentages({"prompt_cached": None, "pictures_cached": 0.0}) == ""
