"""Everything that would stop a model is found in its configuration: on disk, on the Hub, behind an endpoint, and offline."""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.inspection.model_check import check, local_fault
from sweeps.model import Endpoint
from sweeps.registry import registry
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec
from tests.loopback import serving

ROOT = Path(__file__).parents[3]
DEAD = "http://127.0.0.1:9/v1"
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
    (tmp_path / "tokenizer.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(size)  # a hole: it has the size and takes no disk
    return str(tmp_path)


def row(gpu="h200", packages=False, **entry):
    """The cells of a model, as attributes."""
    (found,) = check([ModelSpec(name="m", **entry)], gpu, packages)
    return SimpleNamespace(**found.cells, ok=found.ok)


def test_a_folder_that_fits(tmp_path):
    pytest.importorskip("vllm", reason="its engine is not installed")
    checked = row(source=folder(tmp_path / "m", size=16_000_000_000))

    assert checked.ok and checked.source == "ok: on disk"
    assert checked.architecture == "ok: Qwen2_5_VLForConditionalGeneration"
    assert checked.images == "ok: any number in 128,000 tokens"
    assert checked.fit == "ok: about 16.0 GB of weights, 127 GB usable on 1 x h200"


def test_architecture_and_remote_code(tmp_path):
    pytest.importorskip("vllm", reason="its engine is not installed")
    source = folder(tmp_path / "m", architectures=["OddModel"], auto_map={"AutoModel": "x.Odd"})

    assert row(source=source).architecture.startswith("no: the installed vllm does not run OddModel")
    trusted = row(source=source, backend="transformers", trust_remote_code=True)
    assert trusted.architecture == "ok: OddModel, its own code"
    assert row(source=source).license.endswith("brings remote code (trust_remote_code is false)")
    assert not row(source=source).ok


def test_a_folder_without_vocabulary_can_read_no_text(tmp_path):
    source = folder(tmp_path / "m")
    Path(source, "tokenizer.json").unlink()
    fault = f"folder {source} has no tokenizer.json or other vocabulary"

    assert row(source=source).source == f"no: {fault}"
    assert local_fault(ModelSpec(name="m", source=source)) == fault
    Path(source, "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["x.Own", null]}}')
    assert row(source=source).source == "ok: on disk"


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"architectures": 3, "text_config": {"num_layers": "x"}}', b'{"architectures": [["x"]]}'],
)
def test_a_broken_configuration_is_no_crash(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    checked = row(source=str(tmp_path))

    assert checked.source.startswith("no: ") or checked.architecture == "unknown"


@pytest.mark.parametrize("preprocessor", [{}, {"processor_class": "NoSuchProcessor"}], ids=["no class", "unknown"])
def test_a_processor_that_cannot_be_built_is_no_crash(tmp_path, preprocessor):
    source = folder(tmp_path, model_type="llava", architectures=["LlavaForConditionalGeneration"])
    Path(source, "preprocessor_config.json").write_text(json.dumps(preprocessor))
    Path(source, "tokenizer_config.json").write_text("{}")

    assert row(source=source, backend="transformers", gpus=0, packages=True).source == "ok: on disk"


@pytest.mark.parametrize(
    ("entry", "cell"),
    [
        ({}, "unknown"),
        ({"parameters": 4}, "ok: about 8.0 GB of weights, 14 GB usable on 1 x t4"),
        ({"parameters": 5}, "no: about 10.0 GB of weights, 14 GB usable on 1 x t4"),
        ({"parameters": 1, "gpus": 0.5}, "ok: about 2.0 GB of weights, 7 GB usable on 0.5 x t4"),
    ],
)
def test_a_model_fits_if_its_weights_and_five_gigabytes_are_usable(entry, cell):
    checked = row("t4", source="somebody/model-404b", **entry)
    assert (checked.fit, checked.source[:9]) == (cell, "unknown: "), "offline, nothing is known of a source with 404"


class OneModel(BaseHTTPRequestHandler):
    """A service that lists models, and answers a question to any of them with one status code."""

    listing: bytes | None = json.dumps({"data": [{"id": name} for name in ("models/a", "b", "c", "d")]}).encode()
    """None answers with words that are no HTTP."""
    code = 200

    def do_GET(self):
        self.wfile.write(b"HELLO\r\n\r\n" if self.listing is None else b"HTTP/1.0 200 OK\r\n\r\n" + self.listing)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(f"HTTP/1.0 {self.code} X\r\n\r\n{{}}".encode())

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("source", "service", "cell"),
    [
        ("b", {"code": 500}, "ok: it answers"),
        ("x", {"code": 200}, "unknown: ADDRESS does not list x"),
        ("x", {"code": 404}, "no: it serves a, b, c and 1 more, not x; correct source"),
        ("x", {"listing": b'{"data": null}'}, "unknown: ADDRESS lists no models"),
        ("x", {"listing": None}, "no: ADDRESS does not answer"),
    ],
)
def test_a_service_is_asked_for_its_models_and_then_for_one_word(source, service, cell):
    with serving(type("Service", (OneModel,), service)) as address:
        checked = row(source=source, backend="openai", endpoint=Endpoint(base_url=f"{address}/", key_env=""))

    assert checked.source.replace(f"{address}/", "ADDRESS").startswith(cell)


@pytest.mark.parametrize(
    ("key", "endpoint", "cell"),
    [
        (None, {}, "no: OPENAI_API_KEY is not set"),
        ("secret", {}, "ok: OPENAI_API_KEY is set (no request was sent)"),
        ("secret\n", {"base_url": DEAD}, "no: OPENAI_API_KEY has a line break or a character that no key has"),
        ("secret", {"base_url": "ftp://x"}, "no: base_url ftp://x must start with http:// or https://"),
        ("secret", {"base_url": DEAD}, f"no: {DEAD} does not answer ([Errno 111] Connection refused)"),
        (
            "secret", {"base_url": DEAD, "key_env": "OWN_KEY"},
            'no: OWN_KEY is not set: set it, or key_env = "" in the entry if the service needs no key',
        ),
    ],
)  # fmt: skip
def test_a_services_key_and_address_are_looked_at_first(monkeypatch, key, endpoint, cell):
    monkeypatch.delenv("OWN_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    checked = row(source="gpt-4.1", backend="openai", endpoint=Endpoint(**endpoint))

    assert checked.source.startswith(cell) and checked.ok is cell.startswith("ok")


def test_a_person_is_not_called_a_policy():
    assert "`proactive-sweep play`" in row(source="human:jane", backend="human").source


def text_folder(tmp_path):
    return folder(tmp_path, architectures=["LlamaForCausalLM"], text_config={}, max_position_embeddings=8192)


@pytest.mark.parametrize("backend", ["vllm", "transformers"])
def test_a_text_only_model_may_run_and_is_named_as_one(tmp_path, backend):
    found = row(source=text_folder(tmp_path / "m"), backend=backend, gpus=0)

    assert found.ok and found.images == "ok: none, it reads text only in 8,192 tokens"
    assert found.architecture == "ok: LlamaForCausalLM" if find_spec(backend) else found.architecture.startswith("unk")


def test_a_template_that_drops_pictures_is_refused_of_named_models(tmp_path):
    pytest.importorskip("transformers", reason="its engine is not installed")
    from tests.actors.architectures import write

    source = write("llava-1.5", tmp_path / "m")
    assert row(source=str(source), backend="transformers", packages=True).template == "ok: no functions"
    for picture in ("", "<img>"):  # left out, and misspelled
        text = f"{{% if c.type == 'text' %}}{{{{ c.text }}}}{{% else %}}{picture}{{% endif %}}"
        text = f"{{% for m in messages %}}{{% for c in m.content %}}{text}{{% endfor %}}{{% endfor %}}"
        (source / "chat_template.jinja").write_text(text)
        found = row(source=str(source), backend="transformers", packages=True)
        assert found.template.startswith("no: the prompt has no"), picture
    assert row(source=str(source), backend="transformers").template == "ok: no functions"


def test_the_template_cell_names_functions_and_a_template_without_end(tmp_path):
    source = folder(tmp_path / "m")
    assert row(source=source).template == "unknown"
    (tmp_path / "m/tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert row(source=source).template == "ok: no functions"
    assert row(source=source, tools="hermes").template.startswith("no: no functions")
    uses = ("", "{{ bos_token + '<s>' }}", "{{ strftime_now('%Y') }}", "{{ '<s>' + messages[0].content }}")
    filling = [use + "{{ 'x' * 10 ** 10 }}" for use in uses]
    endless = "{% for a in range(99999) %}" * 2 + "x" + "{% endfor %}" * 2
    only_texts = "{% if messages[0].content is string %}" + endless + "{% else %}{{ 1 // 0 }}{% endif %}"
    for text in (endless, only_texts, *filling):
        (tmp_path / "m/tokenizer_config.json").write_text(json.dumps({"chat_template": text}))
        assert row(source=source).template.startswith("no: its chat template takes more than 5 s or 512 MiB"), text
    (tmp_path / "m/tokenizer_config.json").write_text("{}")
    one = row(source=source, backend="transformers")
    assert (one.template, one.images[:16]) == ("ok: none, one question with one picture", "ok: one picture;")


def test_model_with_packages_of_its_own_is_not_judged_by_the_installed_ones(tmp_path):
    own = {"source": folder(tmp_path / "odd", architectures=["OddModel"]), "requirements": ["vllm==0.99"]}
    checked = row(packages=True, **own)

    assert local_fault(ModelSpec(name="m", **own)) == "" and checked.ok
    assert checked.architecture == "unknown: OddModel; `models try` loads it with its own packages"
    assert checked.packages == "unknown: own packages (vllm==0.99), which `models try` installs"


def test_faults_of_files_are_known_before_a_sweep_starts(tmp_path):
    pytest.importorskip("transformers", reason="its engine is not installed")

    def fault(source, **entry):
        return local_fault(ModelSpec(name="m", source=str(source), **entry))

    odd = folder(tmp_path / "odd", architectures=["OddModel"])
    assert fault(odd, backend="transformers").startswith("the installed transformers does not run Odd")
    assert fault(odd, backend="transformers", trust_remote_code=True) == fault(odd, backend="transformers")
    own = folder(tmp_path / "own", architectures=["OddModel"], auto_map={})
    assert fault(own, backend="transformers", trust_remote_code=True) == ""
    for gone in (tmp_path / "gone", "~/gone"):
        assert fault(gone) == f"folder {gone} does not exist"
    films = folder(tmp_path / "films", architectures=["LlavaNextVideoForConditionalGeneration"])
    (tmp_path / "films/video_preprocessor_config.json").write_text("{}")
    assert bool(find_spec("torchvision")) or "it needs torchvision" in fault(films, backend="transformers")


def test_decoding_that_no_engine_follows_is_known_before_a_sweep_starts(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="its engine is not installed")
    source = folder(tmp_path / "m", architectures=["LlavaForConditionalGeneration"])
    file = tmp_path / "m/generation_config.json"
    model = ModelSpec(name="m", source=source, backend="transformers", gpus=0)

    def cell_and_fault(fields: object) -> tuple[str, str]:
        file.write_text(json.dumps(fields))
        (found,) = check([model])
        return found.cells["decoding"], local_fault(model, [Sampling(checkpoint=True)])

    assert cell_and_fault({}) == ("ok: greedy", "")
    assert cell_and_fault([1])[1] == f"{file} is no readable JSON object"
    assert cell_and_fault({"do_sample": True, "temperature": 0.7}) == ("ok: sampled", "")
    cell, fault = cell_and_fault({"num_beams": 4, "bad_words_ids": [[1, 2]]})
    assert (cell, fault) == (
        "ok: greedy",
        'sampling = "checkpoint" cannot follow num_beams = 4, bad_words_ids of several tokens of generation_config.json; '
        "state the sampling in the sweep",
    )
    assert "cannot follow the values of" in cell_and_fault({"do_sample": True, "temperature": "warm"})[1]
    assert local_fault(model, [Sampling()]) == local_fault(model) == ""


@pytest.mark.parametrize("backend", ["transformers", "vllm"])
def test_a_checkpoint_folder_that_no_sweep_names_is_checked(tmp_path: Path, backend: str) -> None:
    source = folder(tmp_path / "mine", architectures=["LlavaForConditionalGeneration"])
    (tmp_path / "mine/processor_config.json").write_text("{]")
    shown = CliRunner().invoke(app, ["models", "check", source, "--json"])
    (found,) = json.loads(shown.stdout)["models"]

    assert (found["model"], found["ok"]) == ("mine", False)
    assert "LlavaForConditionalGeneration" in found["architecture"]
    fault = f"{source}/processor_config.json is no readable JSON object"
    assert found["source"] == f"no: {fault}"
    assert local_fault(ModelSpec(name="m", source=source, backend=backend)) == fault


def test_a_model_is_decoded_by_its_sweep_and_the_judge_by_its_table(tmp_path: Path) -> None:
    source = folder(tmp_path / "m")
    (tmp_path / "m/generation_config.json").write_text('{"num_beams": 2}')
    file = tmp_path / "s.toml"
    entry = f'[[model]]\nname = "m"\nsource = {json.dumps(source)}\nbackend = "transformers"\ngpus = 0\n'
    for sampling, words in (("", "ok: greedy"), ('sampling = "checkpoint"\n', "cannot follow")):
        file.write_text(f'data = "d"\n{sampling}{entry}')
        shown = CliRunner().invoke(app, ["models", "check", str(file), "--json"])

        assert words in json.loads(shown.stdout)["models"][0]["decoding"]


def models_check(*args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "models", "check", *map(str, args)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", **environment}, cwd=ROOT,
    )  # fmt: skip


def test_all_that_ship_offline_is_a_table_and_mistakes_are_sentences():
    missing = {model.endpoint.key_env for model in registry().values() if model.endpoint.base_url}
    shipped = models_check(HF_HUB_OFFLINE="1", OPENAI_API_KEY="x", COLUMNS="400", **dict.fromkeys(missing, ""))
    problems = [line for line in shipped.stdout.splitlines() if " no: " in line and "not on this machine" not in line]
    assert shipped.returncode == 1 and "internvl3-78b" in shipped.stdout and "Traceback" not in shipped.stderr
    assert len(problems) == len(missing) == 2 and all(any(key in line for key in missing) for line in problems)
    mistakes = (["qwen2.5-vl-7"], "did you mean 'qwen2.5-vl-7b'?"), (["--gpu-type", "h900"], "'h900' is none of")
    for words, cause in mistakes:
        wrong = CliRunner().invoke(app, ["models", "check", *words])
        assert wrong.exit_code == 2 and cause in wrong.output
