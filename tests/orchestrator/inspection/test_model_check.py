"""What would stop a model is told from its configuration: on disk, on the Hub, behind an endpoint, and offline."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.inspection.architectures import TRANSFORMERS, VLLM, architectures
from orchestrator.inspection.model_check import check
from sweeps.endpoint import Endpoint
from sweeps.spec import ModelSpec
from tests.orchestrator.hubserver import Hub, serving

ROOT = Path(__file__).parents[3]
CONFIG = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "torch_dtype": "bfloat16",
    "text_config": {
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584,
        "max_position_embeddings": 128000,
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def folder(tmp_path, size=1 << 20, **changes):
    tmp_path.mkdir(parents=True, exist_ok=True)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | changes))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(size)  # a hole: it has the size and takes no disk
    return str(tmp_path)


def row(gpu="h200", **entry):
    return check([ModelSpec(name="m", **entry)], gpu)[0]


def test_a_folder_that_fits(tmp_path):
    found = row(source=folder(tmp_path / "m", size=16_000_000_000))

    assert found.ok and found.source == "ok: on disk"
    assert found.architecture == "ok: Qwen2_5_VLForConditionalGeneration"
    assert found.images == "ok: any number in 128,000 tokens"
    assert found.fit == "ok: 16.0 GB weights + 1.9 GB cache, 127 GB usable on 1 x h200"


def test_what_does_not_fit_is_told_with_its_size(tmp_path):
    source = folder(tmp_path / "m", size=16_000_000_000)

    assert row(source=source, gpu="t4").fit.startswith("no: 16.0 GB weights")
    assert row(source=source, gpu="t4", gpus=2).fit.startswith("ok: ")
    assert row(source=source, dtype="float32", gpu="l4").fit.startswith("no: 32.0 GB weights")
    assert row(source=source, gpus=8).fit == "no: 28 attention heads do not divide by 8 GPUs"


def test_architecture_and_remote_code(tmp_path):
    source = folder(tmp_path / "m", architectures=["OddModel"], auto_map={"AutoModel": "x.Odd"})

    assert row(source=source).architecture.startswith("no: vllm does not run OddModel (by ")
    assert (
        row(source=source, backend="transformers", trust_remote_code=True).architecture == "ok: OddModel, its own code"
    )
    assert row(source=source).license.endswith("brings remote code (trust_remote_code is false)")
    assert not row(source=source).ok


def test_packages_are_tried_where_that_is_asked(tmp_path):
    models = [ModelSpec(name="m", source=folder(tmp_path / "m"), backend="transformers")]
    (tried,), (not_tried,) = check(models, imports=True), check(models)

    assert not_tried.packages == "-" and tried.required_packages == ("torchvision",)
    if find_spec("torchvision") is None:
        sentence = "no: it needs torchvision, which is not installed: pip install 'proactive-sweep[vision]'"
        assert (tried.packages, tried.ok, not_tried.ok) == (sentence, False, True)


def test_one_picture_a_prompt_is_said(tmp_path):
    assert "no history" in row(source=folder(tmp_path / "m"), max_images=1).images


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"architectures": 3, "text_config": {"num_hidden_layers": "x"}}',
        b'{"architectures": [["x"]]}',
    ],
)
def test_a_broken_configuration_is_no_crash(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    found = row(source=str(tmp_path))

    assert found.source.startswith("no: ") or found.architecture == "unknown"


def test_offline_is_unknown_and_a_missing_folder_is_no():
    assert row(source="somebody/some-model", parameters=7).source.startswith("unknown: ")
    assert row(source="somebody/some-model", parameters=7).fit == "unknown; about 14 GB of weights for 127 GB"
    assert row(source="somebody/huge", parameters=72, gpu="h100").fit.startswith("no: about 144 GB")
    assert row(source="/no/such/folder").source == "no: folder /no/such/folder does not exist"


def test_an_adapter_is_looked_for(tmp_path):
    source = folder(tmp_path / "m")
    assert row(source=source, lora=str(tmp_path / "lora")).source == f"no: adapter {tmp_path / 'lora'} does not exist"
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora/adapter_config.json").write_text("{}")
    assert row(source=source, lora=str(tmp_path / "lora")).source == "ok: on disk"
    assert row(source=source, lora="vision-lora").source == "ok: on disk"


def test_endpoints(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert row(source="gpt-4.1", backend="openai").source == "no: OPENAI_API_KEY is not set"
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert row(source="gpt-4.1", backend="openai").ok
    dead = Endpoint(base_url="http://127.0.0.1:9/v1")
    assert row(source="x", backend="openai", endpoint=dead).source.startswith(
        "no: http://127.0.0.1:9/v1 does not answer"
    )


@pytest.mark.parametrize("address", ["localhost:8000/v1", "127.0.0.1:8000/v1", "foo"])
def test_an_address_without_its_scheme_is_told(address):
    found = row(source="x", backend="openai", endpoint=Endpoint(base_url=address))

    assert found.source == f"no: base_url {address} must start with http:// or https://"


def test_a_key_that_cannot_be_sent_is_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret\n")
    found = row(source="x", backend="openai", endpoint=Endpoint(base_url="http://127.0.0.1:9/v1"))

    assert found.source == "no: OPENAI_API_KEY has a line break or a character that no key has"


@pytest.mark.parametrize("answer", [b'{"data": null}', b"[]", b"{", None])
def test_a_service_that_talks_nonsense_is_no_crash(answer):
    with talking(answer) as address:
        found = row(source="x", backend="openai", endpoint=Endpoint(base_url=address, key_env=""))

    assert found.source.startswith(f"no: {address} does not answer")


@contextmanager
def talking(answer):
    """A server that gives this JSON to whoever asks, or with None words that are no HTTP."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            status = b"HELLO\r\n\r\n" if answer is None else b"HTTP/1.0 200 OK\r\n\r\n"
            self.wfile.write(status + (answer or b""))

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_a_policy_that_does_not_exist_cannot_run():
    assert row(source="builtin:oracle", backend="builtin").ok
    assert row(source="builtin:nosuch", backend="builtin").source.startswith(
        "no: unknown policy 'nosuch'; choose from oracle,"
    )
    assert not row(source="builtin:nosuch", backend="builtin").ok
    assert row(source="builtin:embedded", backend="builtin").source.endswith('its backend is "transformers"')


def test_what_others_have_named_is_printed_as_it_is(tmp_path):
    sweep = tmp_path / "s.toml"
    sweep.write_text('data = "d"\n[[model]]\nname = "mine"\nsource = "/models/[/bold]x[red] :smile: \\u001b[31m"\n')
    found = CliRunner().invoke(app, ["models", "check", "--sweep", str(sweep)])

    assert found.exit_code == 1, found.exception
    assert r"no: folder /models/[/bold]x[red] :smile: \x1b[31m does not exist" in found.output


def test_the_lists_hold_the_papers_models():
    assert {"LlavaForConditionalGeneration", "Phi4MMForCausalLM", "InternVLForConditionalGeneration"} <= VLLM
    assert "InstructBlipForConditionalGeneration" in TRANSFORMERS - VLLM
    for backend in ("vllm", "transformers"):
        known, how = architectures(backend)
        assert "Qwen2_5_VLForConditionalGeneration" in known and backend in how
    assert "Phi4MultimodalForCausalLM" in TRANSFORMERS & architectures("transformers")[0]


def models_check(*args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "models", "check", *map(str, args)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", **environment}, cwd=ROOT,
    )  # fmt: skip


def test_on_the_hub(tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    folder(tmp_path / "hub", size=5_000_000, architectures=["LlavaForConditionalGeneration"])
    sweep = tmp_path / "s.toml"
    sweep.write_text('data = "d"\n[[model]]\nname = "mine"\nsource = "me/tiny"\n')
    with serving(Hub(tmp_path / "hub", "me/tiny", "models")) as hub:
        done = models_check("--sweep", sweep, HF_ENDPOINT=hub.address, HF_HUB_OFFLINE="0", HF_HOME=str(tmp_path / "hf"))

    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("mine", "on the Hub", "no revision", "LlavaFor", "mit", "h200"):
        assert word in done.stdout


def test_all_that_ship_offline_is_a_table_and_mistakes_are_sentences():
    whole = models_check(HF_HUB_OFFLINE="1", OPENAI_API_KEY="x")
    assert whole.returncode == 0 and "internvl3-78b" in whole.stdout and "Traceback" not in whole.stderr
    wrong = models_check("qwen2.5-vl-7")
    assert wrong.returncode == 2 and "did you mean 'qwen2.5-vl-7b'?" in wrong.stderr
    assert "--gpu-type 'h900' is none of" in models_check("--gpu-type", "h900").stderr
