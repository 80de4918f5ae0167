"""What deploy/ holds is what KubeRay, Kubernetes and bash accept, and the Slurm script does what it says with a real Ray.

KubeRay's CRD is in no package, so the fields that the manifest uses are checked against ``RAYJOB`` below: names and types of
``RayJobSpec`` and ``RayClusterSpec`` in KubeRay's ``apis/ray/v1``. Its pods and the claim meet Kubernetes' own schemas.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from orchestrator.storage.episode_store import episodes
from sweeps.load import load
from tests.conftest import ENVIRONMENT, ROOT
from tests.orchestrator.execution.test_attempt import assert_stored_once
from tests.orchestrator.rayhead import BIN

KUBERNETES = "1.31"
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}


def fields(required: tuple[str, ...] = (), **properties: object) -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


COUNT = {"type": "integer", "minimum": 0}
TEXT, TRUTH, POD = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
HEAD = fields(("rayStartParams", "template"), rayStartParams=STRINGS, template=POD, serviceType=TEXT)
WORKERS = fields(
    ("groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"),
    groupName=TEXT, replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, numOfHosts=COUNT, idleTimeoutSeconds=COUNT,
    rayStartParams=STRINGS, template=POD,
)  # fmt: skip
AUTH = fields(mode={"enum": ["disabled", "token"]}, secretName=TEXT)
CLUSTER = fields(
    ("headGroupSpec",), rayVersion=TEXT, authOptions=AUTH, enableInTreeAutoscaling=TRUTH, headGroupSpec=HEAD,
    workerGroupSpecs={"type": "array", "items": WORKERS},
)  # fmt: skip
SPEC = fields(
    ("rayClusterSpec", "entrypoint"), entrypoint=TEXT, entrypointNumCpus={"type": "number"}, runtimeEnvYAML=TEXT,
    submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode"]}, backoffLimit=COUNT, jobId=TEXT,
    activeDeadlineSeconds=COUNT, shutdownAfterJobFinishes=TRUTH, ttlSecondsAfterFinished=COUNT, suspend=TRUTH,
    metadata=STRINGS, submitterPodTemplate=POD, rayClusterSpec=CLUSTER,
)  # fmt: skip
RAYJOB = fields(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "ray.io/v1"}, kind={"const": "RayJob"}, metadata=POD, spec=SPEC,
)  # fmt: skip


@pytest.fixture(scope="module")
def manifests() -> list[dict]:
    return list(yaml.safe_load_all((ROOT / "deploy/rayjob.yaml").read_text()))


def groups(job: dict) -> list[dict]:
    cluster = job["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def test_a_dashboard_that_other_pods_reach_asks_for_a_token(manifests):
    cluster = manifests[0]["spec"]["rayClusterSpec"]

    assert cluster["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "0.0.0.0"
    assert cluster["authOptions"]["mode"] == "token" and cluster["rayVersion"] >= "2.52.0"


def test_the_manifest_is_a_rayjob_whose_pods_and_claim_kubernetes_accepts(manifests):
    job, claim = manifests
    jsonschema.Draft202012Validator(RAYJOB).validate(job)
    kubernetes_validate.validate(claim, KUBERNETES, strict=True)
    for number, group in enumerate(groups(job)):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": group["template"]["spec"]}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_the_checks_notice_a_misspelt_field(manifests):
    job = json.loads(json.dumps(manifests[0]))
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 3
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        jsonschema.Draft202012Validator(RAYJOB).validate(job)
    spec = json.loads(json.dumps(groups(manifests[0])[0]["template"]["spec"]))
    spec["containers"][0]["volumemounts"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, KUBERNETES, strict=True
        )


def test_the_manifest_shares_its_storage_asks_for_gpus_and_holds_no_secret(manifests):
    job, claim = manifests
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for group in groups(job):
        spec = group["template"]["spec"]
        container = spec["containers"][0]
        assert {"name": "shared", "mountPath": "/shared"} in container["volumeMounts"]
        assert claim["metadata"]["name"] in {
            v.get("persistentVolumeClaim", {}).get("claimName") for v in spec["volumes"]
        }
        assert container["envFrom"][0]["secretRef"]["name"]
        assert not any(re.search("KEY|TOKEN|PASSWORD|SECRET", entry["name"]) for entry in container["env"])
    head, workers = (group["template"]["spec"]["containers"][0]["resources"] for group in groups(job))
    assert "nvidia.com/gpu" not in head["limits"] and int(workers["limits"]["nvidia.com/gpu"]) >= 1


def test_the_entrypoint_is_a_command_that_this_version_has(manifests, tmp_path):
    words = shlex.split(manifests[0]["spec"]["entrypoint"])
    assert words[:4] == ["python", "-m", "orchestrator", "run"]
    overrides = [words[n + 1] for n, word in enumerate(words) if word == "--set"]
    assert Path(words[words.index("--output") + 1]).is_absolute() and words[4].startswith("/shared/")
    assert load(ROOT / "sweeps" / Path(words[4]).name, overrides).data.startswith("/shared/")


def test_workers_of_both_clusters_run_at_plain_priority(manifests):
    environments = [group["template"]["spec"]["containers"][0]["env"] for group in groups(manifests[0])]

    assert all({"name": "RAY_worker_niceness", "value": "0"} in entries for entries in environments)
    assert re.search(r"^export .*\bRAY_worker_niceness=0\b", (ROOT / "deploy/slurm.sh").read_text(), re.M)


def test_shellcheck_finds_nothing():
    done = subprocess.run([BIN / "shellcheck", *ROOT.glob("deploy/*.sh")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


SRUN = """#!/usr/bin/env bash
# Slurm's srun for one machine: says what it was asked for, and runs the command here.
echo "$@" >> "$FAKE_LOG"
while [[ "$1" == --* ]]; do shift; done
if [[ "$1 $2" == "ray start" ]]; then
  exec "$@" --object-store-memory=100000000 --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=0
fi
exec "$@"
"""


@pytest.fixture
def slurm(tmp_path):
    """The environment in which sbatch would start the script, on two nodes that are this machine."""
    tools = {
        "srun": SRUN,
        "scontrol": '#!/bin/sh\n[ "$1 $2" = "show hostnames" ] && printf "node-1\\nnode-2\\n"\n',
        "hostname": "#!/bin/sh\necho ::1 127.0.0.1\n",
    }
    for name, text in tools.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    job = str(10_000_000 + os.getpid())
    environment = {
        **os.environ, **ENVIRONMENT, "PATH": f"{tmp_path}:{BIN}:{os.environ['PATH']}", "FAKE_LOG": str(tmp_path / "srun.log"),
        "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "node-[1-2]", "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_CPUS_PER_TASK": "1",
    }  # fmt: skip
    environment.pop("RAY_ADDRESS", None)
    yield environment
    shutil.rmtree(f"/tmp/ray-{job}", ignore_errors=True)


def submit_job(environment: dict[str, str], *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", ROOT / "deploy/slurm.sh", *map(str, words)], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def job_processes(job: str) -> list[str]:
    """Return the command lines of this job's processes."""
    lines = []
    for entry in Path("/proc").iterdir():
        try:
            environ = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
            if f"SLURM_JOB_ID={job}\0".encode() in environ:
                lines.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if line]


@pytest.mark.slow
@pytest.mark.long
def test_slurm_script_runs_on_all_nodes_and_cleans_up(slurm, demo_data, tmp_path):
    entry = (
        "sweeps/baselines.toml", "--set", 'models=["oracle","uniform"]', "--set", 'conditions=["zero-shot"]', "--set",
        f"data={demo_data}", "--tracking-uri", "none", "--output", tmp_path / "run",
    )  # fmt: skip
    process = submit_job(slurm, *entry)
    output, _ = process.communicate(timeout=240)

    assert process.returncode == 0, output
    assert_stored_once(tmp_path / "run", 140)
    srun_calls = (tmp_path / "srun.log").read_text().splitlines()
    assert [re.search(r"--nodelist=(\S+)", line)[1] for line in srun_calls] == ["node-1", "node-1", "node-2"]
    assert (
        "not all of" not in output
        and "--head --node-ip-address=127.0.0.1" in srun_calls[1]
        and "--address=127.0.0.1:" in srun_calls[2]
    )
    wait_until_gone(slurm["SLURM_JOB_ID"])


@pytest.mark.slow
@pytest.mark.long
def test_time_limit_signal_ends_sweep_and_keeps_finished(slurm, demo_data, tmp_path):
    models = "".join(
        f'[[model]]\nname = "u{n}"\nsource = "builtin:uniform"\nbackend = "builtin"\ngpus = 0\n' for n in range(900)
    )
    longer, out = tmp_path / "long.toml", tmp_path / "run"
    longer.write_text(f'# A test.\ndata = "{demo_data}"\ntracking = {{ uri = "none" }}\n{models}')
    process = submit_job(slurm, longer, "--output", out)
    deadline = time.monotonic() + 120
    while not any(out.glob("episodes/*.parquet")):
        assert process.poll() is None and time.monotonic() < deadline, process.stdout.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)

    assert process.returncode == 143, output
    stopped = int(re.search(r"stopped: ([\d,]+) new episodes are stored", output)[1].replace(",", ""))
    assert episodes(out).collect().height == stopped < 900 * 70
    wait_until_gone(slurm["SLURM_JOB_ID"])


def wait_until_gone(job: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while remaining := job_processes(job):
        assert time.monotonic() < deadline, remaining
        time.sleep(0.5)


def test_the_slurm_script_says_how_it_is_used(slurm):
    process = submit_job(slurm)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and output.startswith("usage: sbatch deploy/slurm.sh SWEEP")


def test_the_image_is_well_formed_and_holds_what_a_job_needs():
    dockerfile = ROOT / "deploy/Dockerfile"
    linted = subprocess.run([BIN / "hadolint", dockerfile], capture_output=True, text=True, check=False)
    text = dockerfile.read_text()
    copied = {name for line in re.findall(r"^COPY --chown=ray (.+) \S+$", text, re.M) for name in line.split()}
    sent = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    images = {
        image["image"] for image in containers(list(yaml.safe_load_all((ROOT / "deploy/rayjob.yaml").read_text())))
    }

    assert linted.returncode == 0, linted.stdout
    assert copied == sent and all((ROOT / name).exists() for name in copied)
    assert all(image in text for image in images) and len(images) == 1


def containers(node):
    """Every table with an image, anywhere in a manifest."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node] * (isinstance(node, dict) and "image" in node) + [
        container for child in children for container in containers(child)
    ]
