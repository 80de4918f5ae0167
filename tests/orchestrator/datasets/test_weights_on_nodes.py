"""Each of two local Ray nodes gets the weights once. Real Ray, a real server of the Hub's protocol."""

import os
from random import Random

import pytest

from tests.conftest import ENVIRONMENT, ROOT, Cli
from tests.orchestrator.hubserver import COMMIT, Hub, serving

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
pytestmark = pytest.mark.slow
MODEL = "someone/tiny"
FILES = {"config.json": 40, "model.safetensors": 900_000}


@pytest.mark.long
def test_each_node_with_a_cache_of_its_own_fetches_once(tmp_path):
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    (tmp_path / "published").mkdir()
    for number, (name, size) in enumerate(FILES.items()):
        (tmp_path / "published" / name).write_bytes(Random(number).randbytes(size))
    sweep = tmp_path / "x.toml"
    sweep.write_text(f'data = "x"\nmodels = ["tiny"]\n[[model]]\nname = "tiny"\nsource = "{MODEL}"\n')
    homes, cluster = [tmp_path / "one", tmp_path / "two"], Cluster()
    with serving(Hub(tmp_path / "published", MODEL, "models")) as hub, pytest.MonkeyPatch.context() as patch:
        for name, value in {"NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}.items():
            patch.setenv(name, value)
        patch.setenv("HF_ENDPOINT", hub.address)
        try:
            for home in homes:
                patch.setenv("HF_HOME", str(home))
                cluster.add_node(num_cpus=1, include_dashboard=False, env_vars={"HF_HOME": str(home)})
            cli = Cli({**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": str(ROOT)})
            first, second = (cli.run("models", "fetch", "--sweep", sweep) for _ in range(2))
        finally:
            cluster.shutdown()

    size = sum(FILES.values())
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + first.stderr + second.stderr
    assert first.stdout.count(f"tiny: 2 files, {size:,} bytes; 0 bytes are here") == 2
    assert second.stdout.count(f"tiny: 2 files, {size:,} bytes; {size:,} bytes are here") == 2
    assert hub.sent["model.safetensors"] == 2 * FILES["model.safetensors"], "once a node"
    for home in homes:
        snapshot = home / f"hub/models--someone--tiny/snapshots/{COMMIT}"
        assert {path.name: path.stat().st_size for path in snapshot.iterdir()} == FILES
