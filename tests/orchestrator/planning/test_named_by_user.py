"""A run folder that came from someone else reaches no address, key or code that the user did not name."""

from __future__ import annotations

import socketserver
import threading
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.planning.named_by_user import check_named, check_tracking
from orchestrator.storage import checksums, run_folder
from orchestrator.view.catalog import open_unread, read_episodes
from sweeps.model import ModelSpec
from tests.orchestrator.report import runs

SERVICE = {"backend": "openai", "endpoint": {"base_url": "https://evil.example/v1"}}
LOCAL = {"backend": "openai", "endpoint": {"base_url": "http://127.0.0.1:8000/v1", "key_env": ""}}
REFUSED = [
    (SERVICE, "the service https://evil.example/v1 (key in OPENAI_API_KEY)"),
    ({**LOCAL, "endpoint": {"base_url": "http://127.0.0.1.evil.example/v1"}}, "the service http://127.0.0.1.evil.example"),
    ({**LOCAL, "endpoint": {"base_url": "http://evil.example\\@127.0.0.1/v1"}}, "the service"),
    ({**LOCAL, "endpoint": {"base_url": "http://127.0.0.1:8000/v1", "key_env": "GITHUB_TOKEN"}}, "(key in GITHUB_TOKEN)"),
    ({"backend": "openai", "endpoint": {"key_env": "AWS_SECRET_ACCESS_KEY"}}, "of OpenAI (key in AWS_SECRET_ACCESS_KEY)"),
    ({"backend": "vllm", "trust_remote_code": True}, "the code or unsafe options of m"),
    ({"backend": "vllm", "unsafe_options": True, "options": {"worker_extension_cls": "evil.Worker"}}, "unsafe options"),
    ({"backend": "vllm", "options": {"hf_overrides": {"auto_map": {}}}}, "the code or unsafe options of m"),
    ({"backend": "transformers", "processor": {"trust_remote_code": True}}, "the code or unsafe options of m"),
    ({"backend": "transformers", "options": {"attn_implementation": "evil/kernel"}}, "the code or unsafe options of m"),
    ({"backend": "transformers"}, "the weights evil/model"),
    ({"backend": "vllm", "source": "Qwen/Qwen3-8B", "revision": "refs/pr/7"}, "the weights refs/pr/7 of Qwen/Qwen3-8B"),
    ({"backend": "vllm", "source": "Qwen/Qwen3-8B", "lora": "evil/adapter"}, "the weights evil/adapter of "),
    ({"backend": "vllm", "source": "Qwen/Qwen3-8B", "options": {"download_dir": "run/cache"}}, "the weights run/cache of "),
]  # fmt: skip


def entry(**fields):
    return ModelSpec(**{"name": "m", "source": "evil/model", **fields})


@pytest.mark.parametrize(("fields", "reason"), REFUSED)
def test_what_only_the_folder_names_is_refused_until_an_own_sweep_names_it(demo_data, tmp_path, fields, reason):
    sweep, model = runs.sweep(demo_data, ["oracle"]), entry(**fields)

    with pytest.raises(RunFolderError) as refusal:
        check_named(tmp_path, sweep, [model])
    assert reason in str(refusal.value) and "sweep.resolved.toml`" in str(refusal.value)

    check_named(tmp_path, sweep, [model], own=sweep.model_copy(update={"models": (model,)}))
    other = entry(**{**fields, "name": "n", "source": "other/model", "backend": fields["backend"]})
    if fields["backend"] != "openai":  # another model in the user's file does not name this one
        with pytest.raises(RunFolderError):
            check_named(tmp_path, sweep, [model], own=sweep.model_copy(update={"models": (other,)}))


@pytest.mark.parametrize("fields", [LOCAL, {"backend": "openai"}, {"source": "builtin:uniform", "backend": "builtin"}])
def test_this_machine_openai_and_built_in_models_need_no_option(demo_data, tmp_path, fields):
    check_named(tmp_path, runs.sweep(demo_data, ["oracle"]), [entry(**fields)])


@pytest.mark.parametrize(
    ("fields", "typed", "is_named"),
    [
        ({"endpoint": {"base_url": "https://[::1]:80/v1", "key_env": ""}}, "", True),
        ({"endpoint": {"base_url": "http://127.0.0.1:123456/v1", "key_env": ""}}, "", False),
        ({"endpoint": {"base_url": "http://localhost", "key_env": "TOKEN"}}, "model.endpoint.key_env=TOKEN", True),
        ({"endpoint": {"base_url": "https://e.org", "key_env": ""}}, "model.endpoint.base_url=https://e.org", True),
        ({"endpoint": {"base_url": "https://e.org", "key_env": ""}}, "model.endpoint.base_url=https://e.org/x", False),
        ({"endpoint": {"base_url": "https://e.org", "key_env": "T"}}, "model.endpoint.base_url=https://e.org", False),
        ({"backend": "vllm"}, "model.source=evil/model", True),
        ({"backend": "vllm"}, "model.source=evil/other", False),
        ({"backend": "vllm", "trust_remote_code": True}, "model.trust_remote_code=true", True),
        ({"backend": "vllm", "trust_remote_code": True}, "model.trust_remote_code=1", False),
    ],
)
def test_what_is_typed_names_exactly_that(demo_data, tmp_path, monkeypatch, fields, typed, is_named):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with nullcontext() if is_named else pytest.raises(RunFolderError):
        check_named(tmp_path, runs.sweep(demo_data, ["oracle"]), [entry(**fields)], typed=[typed])


@pytest.mark.parametrize(
    ("update", "reason"),
    [({"revision": "1" * 40}, "the code or unsafe options of m"), ({"lora": "/x"}, "the weights /x")],
)
def test_code_of_another_revision_or_with_another_adapter_is_not_named(demo_data, tmp_path, update, reason):
    sweep, code = runs.sweep(demo_data, ["oracle"]), entry(backend="vllm", trust_remote_code=True)
    with pytest.raises(RunFolderError, match=reason):
        check_named(tmp_path, sweep, [code.model_copy(update=update)], own=sweep.model_copy(update={"models": (code,)}))


def test_an_address_that_is_none_is_not_of_this_machine(tmp_path):
    with pytest.raises(RunFolderError, match="the tracking address http"):
        check_tracking(tmp_path, "http://[127.0.0.1")


def test_packages_that_only_the_folder_names_are_not_installed(demo_data, tmp_path):
    own = {"source": "builtin:embedded", "backend": "transformers"}
    sweep, model = runs.sweep(demo_data, ["oracle"]), entry(**own, requirements=["evil==1"])

    with pytest.raises(RunFolderError, match=r"names the packages evil==1 of m, .*sweep.resolved.toml"):
        check_named(tmp_path, sweep, [model], own=sweep.model_copy(update={"models": (entry(**own),)}))
    check_named(tmp_path, sweep, [model], own=sweep.model_copy(update={"models": (model,)}))
    check_named(tmp_path, sweep, [model], typed=['model.requirements=["evil==1"]'])


def test_overrides_and_environment_name_addresses(demo_data, tmp_path, monkeypatch):
    sweep = runs.sweep(demo_data, ["oracle"])
    check_named(tmp_path, sweep, [entry(**SERVICE)], typed=["model.endpoint.base_url=https://evil.example/v1"])
    monkeypatch.setenv("OPENAI_BASE_URL", "https://evil.example/v1")
    check_named(tmp_path, sweep, [entry(**SERVICE)])


class Stranger(socketserver.ThreadingTCPServer):
    """A listener on another loopback address than the one that services of this machine use; it counts its connections."""

    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.2", 0), socketserver.BaseRequestHandler)
        self.connections = 0
        self.address = f"http://127.0.0.2:{self.server_address[1]}"

    def process_request(self, request, client_address):
        self.connections += 1
        self.shutdown_request(request)


@pytest.fixture
def stranger():
    with Stranger() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def received(demo_data, tmp_path, stranger, monkeypatch):
    """A finished run whose sweep names the stranger as data, judge, model and tracking server."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    options = {"protocol": ["mcqa", "oeg"], "judge": {"model": "rule-judge"}, "scenarios": ["ROD"]}
    wanted = runs.sweep(demo_data, ["uniform", "ask-properly"], ["hint"], **options)
    folder = runs.play_sweep(tmp_path / "received", wanted)
    service = entry(name="uniform", backend="openai", endpoint={"base_url": f"{stranger.address}/v1"})
    judge = wanted.judge.model_copy(update={"model": entry(name="judge", **{**SERVICE, "endpoint": service.endpoint})})
    tracking = wanted.tracking.model_copy(update={"uri": f"{stranger.address}/mlflow"})
    changed = {"data": f"{stranger.address}/data", "judge": judge, "tracking": tracking}
    hostile = wanted.model_copy(update={**changed, "models": (service, *wanted.models[1:])})
    checksums.write(folder / run_folder.RESOLVED, run_folder.sweep_toml(hostile).encode())
    return folder


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("judge {}", "the data http://127.0.0.2"),
        ("judge {} --set sampling.max_tokens=9", "the service http://127.0.0.2"),
        ("models try {} --flip-rate 5 --yes", "the service http://127.0.0.2"),
        ("track {}", "the tracking address http://127.0.0.2"),
        ("audit {}", "the data http://127.0.0.2"),
        ("report {}", ""),
        ("compare {}", ""),
        ("status {}", ""),
        ("export {} --to csv", ""),
        ("export {} --to turns", ""),
        ("merge {} --output {}-merged", ""),
    ],
)
def test_no_command_on_a_received_folder_contacts_its_addresses(received, stranger, command, says):
    outcome = CliRunner().invoke(app, command.replace("{}", str(received)).split())

    text = f"{outcome.output}{outcome.exception}"
    assert " ".join(says.split()) in " ".join(text.split())
    assert stranger.connections == 0


def test_view_of_a_received_folder_contacts_no_address(received, stranger):
    run = read_episodes(open_unread(received))

    assert run.episodes.height and not run.samples
    assert stranger.connections == 0


def test_the_stranger_is_reached_once_its_sweep_is_named(received, stranger):
    outcome = CliRunner().invoke(app, ["models", "check", str(received / run_folder.RESOLVED)])

    assert stranger.connections, f"otherwise the other tests would show nothing: {outcome.output}"


def test_weights_that_come_with_the_package_need_no_name(demo_data, tmp_path):
    embedded = entry(backend="transformers", source="builtin:embedded")

    check_named(tmp_path, runs.sweep(demo_data, ["oracle"]), [embedded])
