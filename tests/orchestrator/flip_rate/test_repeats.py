"""Settings, samples and sentences of repeats, without playing any."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envs.errors import RunFolderError
from orchestrator.flip_rate import flip_rate, repeats
from orchestrator.flip_rate.repeats import PLAIN, WITHOUT_CACHES, Setting, choose_settings, describe_left_out
from sweeps.sections import Cluster
from sweeps.spec import ModelSpec, Selection
from tests.orchestrator.report.runs import play_sweep, sweep

SERVICE = {"base_url": "http://127.0.0.1:1/v1", "key_env": ""}


def model(**entry: Any) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


def service(**entry: Any) -> ModelSpec:
    return model(**{"name": "api", "backend": "openai", "endpoint": SERVICE, **entry})


def sweep_of(*models: ModelSpec, **fields: Any) -> Any:
    return SimpleNamespace(models=models, scenarios=("ROD", "QD"), judge=None, **fields)


def test_a_setting_has_the_name_of_its_folder() -> None:
    settings = (PLAIN, WITHOUT_CACHES, Setting(batch=8), Setting(workers=2), Setting(batch=1, workers=3))
    assert [setting.name for setting in settings] == ["repeat", "caches-off", "batch-8", "workers-2", "batch-1"]
    assert repeats.FOLDER == "flip-rate" and (repeats.BATCHES, repeats.WORKERS) == ((1, 8), (2,))


def test_defaults_are_two_batch_sizes_and_two_workers_of_a_model_that_may_have_them() -> None:
    many, alone = model(), (service(), model(gpus=0), model(name="ann", backend="human"))
    names = [setting.name for setting in choose_settings(sweep_of(many, *alone), [], [])]
    assert names == ["batch-1", "batch-8", "workers-2"]
    assert [setting.name for setting in choose_settings(sweep_of(*alone), [], [])] == ["batch-1", "batch-8"]
    given = choose_settings(sweep_of(many), [4, 4], [3, 1, 3], [PLAIN, PLAIN])
    assert [setting.name for setting in given] == ["repeat", "batch-4", "workers-3", "workers-1"]
    for batches, workers, others in (([4], [], []), ([], [4], []), ([], [], [PLAIN])):
        assert len(choose_settings(sweep_of(many), batches, workers, others)) == 1


@pytest.mark.parametrize(
    ("share", "counts"), [(100, [1, 7, 20, 100]), (5, [1, 1, 1, 5]), (15, [1, 2, 3, 15]), (0.01, [1, 1, 1, 1])]
)
def test_a_share_is_rounded_up_and_a_whole_number_kept(share: float, counts: list[int]) -> None:
    taken = [repeats._take_share("QD", range(size), share, 0) for size in (1, 7, 20, 100)]
    assert [len(ids) for ids in taken] == counts and all(ids == sorted(ids) for ids in taken)


def test_a_seed_draws_the_same_samples_in_later_versions() -> None:
    drawn = [repeats._take_share(name, range(100), 5, seed) for name, seed in (("QD", 0), ("QD", 1), ("ROD", 0))]
    assert drawn == [[26, 39, 46, 62, 76], [4, 6, 53, 59, 95], [53, 56, 62, 73, 78]]


def test_engines_get_the_batch_size_by_their_own_option() -> None:
    models = (model(), model(backend="transformers"), service(), service(batch=True), model(backend="builtin"))
    changed = [repeats._with_batch(each, 3) for each in models]
    assert [(each.in_flight, each.options) for each in changed] == [
        (3, {"max_num_seqs": 3}), (3, {"batch": 3}), (3, {}), (None, {}), (None, {}),
    ]  # fmt: skip
    assert [repeats._with_batch(each, None) for each in models] == list(models)
    own = repeats._with_batch(model(options={"max_model_len": 9, "max_num_seqs": 5}), 1)
    assert own.options == {"max_model_len": 9, "max_num_seqs": 1}


def test_only_vllm_has_caches_to_turn_off() -> None:
    off = {"enable_prefix_caching": False, "mm_processor_cache_gb": 0}
    assert repeats._with_caches(model(options={"max_model_len": 9}), WITHOUT_CACHES).options == {
        "max_model_len": 9,
        **off,
    }
    for each, setting in (
        (model(), PLAIN),
        (model(backend="transformers"), WITHOUT_CACHES),
        (service(), WITHOUT_CACHES),
    ):
        assert repeats._with_caches(each, setting) is each


def test_a_number_of_workers_comes_with_their_gpus() -> None:
    cluster = Cluster(gpus=8)
    assert repeats._with_workers(cluster, None, [model()]) is cluster
    for gpus, workers, expected in ((1, 2, 2), (2, 3, 6), (0.5, 3, 2), (0, 2, 8)):
        changed = repeats._with_workers(cluster, workers, [model(gpus=0), model(gpus=gpus)])
        assert (changed.workers, changed.gpus) == (workers, expected)
    assert repeats._with_workers(cluster, 2, []).gpus == 8


def test_a_service_and_vllm_on_cpus_have_one_worker() -> None:
    models = (model(), model(gpus=0), model(backend="transformers", gpus=0), service())
    assert [repeats.has_one_worker(each) for each in models] == [False, True, False, True]


def test_each_part_that_a_setting_leaves_as_it_was_is_named() -> None:
    batched, person = service(name="batched"), model(name="ann", backend="human")
    ids = {False: {"ROD": [1], "QD": [2]}}
    settings = [Setting(workers=2), Setting(batch=1), WITHOUT_CACHES, PLAIN]
    assert list(describe_left_out(sweep_of(model(), batched, person), ids, settings)) == [
        "workers-2: batched always has one worker and is replayed as in the run",
        "caches-off: batched has no caches that this command controls and is replayed as in the run",
        "ann is a person and is not replayed",
    ]
    assert list(describe_left_out(sweep_of(service()), ids, [Setting(batch=1)])) == []


def test_a_selection_has_the_drawn_ids_and_keeps_the_filter() -> None:
    selection = Selection(filtered=False, limit=7)
    changed = repeats._selection(selection, {False: {"ROD": (1, 2)}}, False)
    assert (changed.filtered, changed.limit, changed.ids) == (False, None, {"ROD": [1, 2]})
    assert repeats._selection(selection, {False: {"ROD": (1,)}}, True) is selection


def test_a_run_without_a_sample_in_every_cell_is_a_sentence(demo_data: Path, tmp_path: Path) -> None:
    wanted = sweep(demo_data, ["oracle", "uniform"], ["hint"], scenarios=["ROD"], selection={"limit": 2})
    folder = play_sweep(tmp_path / "run", wanted, only=0)
    with pytest.raises(RunFolderError) as refused:
        flip_rate.prepare_repeats(folder, 5)
    assert str(refused.value) == f"{folder} has no sample that every cell has played; finish the run first"


def test_a_repeat_is_a_run_of_its_own_without_tracking(demo_data: Path, tmp_path: Path) -> None:
    wanted = sweep(demo_data, ["oracle"], ["hint"], scenarios=["ROD", "QD"], selection={"limit": 2})
    folder = play_sweep(tmp_path / "run", wanted)
    prepared = flip_rate.prepare_repeats(folder, 12.5, 3, [1], data=tmp_path)
    assert prepared.output == folder / "flip-rate" / "share-12.5-seed-3" and not prepared.asks_services
    ((setting, repeat),) = prepared.sweeps()
    assert setting == Setting(batch=1) and repeat.output == str(prepared.output / "batch-1")
    assert (repeat.tracking.uri, repeat.measures, repeat.precision, repeat.data) == ("none", (), None, str(tmp_path))
    assert repeat.scenarios == ("ROD", "QD") and {name: len(ids) for name, ids in repeat.selection.ids.items()} == {
        "ROD": 1, "QD": 1,
    }  # fmt: skip
