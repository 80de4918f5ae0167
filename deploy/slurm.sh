#!/usr/bin/env bash
# A sweep on Slurm: a Ray head on the first node, a worker on each of the others, then the command that runs the sweep.
#   sbatch deploy/slurm.sh sweeps/paper.toml --set data=/shared/ProactiveBench/test --output /shared/outputs/paper
# Submit it from the checkout. Checkout, data and output must be on storage that all nodes share (deploy/README.md).
#SBATCH --job-name=proactive-sweep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=0
#SBATCH --time=48:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

[[ $# -gt 0 ]] || { echo "usage: sbatch deploy/slurm.sh SWEEP [options of proactive-sweep run]" >&2; exit 2; }
cd "${SLURM_SUBMIT_DIR:?run me with sbatch}"
# shellcheck disable=SC1091  # the environment exists only on the user's machine
[[ -z "${VENV:-}" ]] || source "$VENV/bin/activate"

# Ray's folder has a short path, because it holds sockets. Folder and ports are per job, so two jobs can share a node.
folder="/tmp/ray-$SLURM_JOB_ID"
port=$((20000 + SLURM_JOB_ID % 10000 * 2))
gpus="${SLURM_GPUS_ON_NODE:-0}"
cpus="${SLURM_CPUS_PER_TASK:-$(nproc)}"
token="$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$token" # excludes other users of the node
export PYTHONUNBUFFERED=1 RAY_worker_niceness=0 # Ray starts workers at nice 15 by default

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head="${nodes[0]}"
started=()
sweep=0

# shellcheck disable=SC2329  # the traps call it
finish() { # ends all processes, the sweep first: it stores its last episodes
  trap - EXIT TERM INT
  if ((sweep)); then kill -TERM "$sweep" 2>/dev/null && wait "$sweep" || true; fi
  for pid in "${started[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait || true
}
trap finish EXIT
trap 'finish; exit 143' TERM INT

node() { # node HOST ARGUMENTS: `ray start` on HOST in the foreground of one srun, so that Slurm ends it with the job
  local host="$1"
  shift
  srun --nodes=1 --ntasks=1 --overlap --nodelist="$host" --cpus-per-task="$cpus" \
    ray start "$@" --num-gpus="$gpus" --num-cpus="$cpus" --disable-usage-stats --block &
  started+=("$!")
}

address="$(srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" hostname --ip-address |
  awk '{for (i = 1; i <= NF; i++) if ($i ~ /^[0-9.]+$/) {print $i; exit}}'):$port"
node "$head" --head --node-ip-address="${address%:*}" --port="$port" --include-dashboard=false --temp-dir="$folder" \
  --ray-client-server-port=$((port + 1))
export RAY_ADDRESS="$address"

# Workers join once the head answers; the sweep starts once all nodes have joined.
waited=0
until ray status >/dev/null 2>&1; do
  kill -0 "${started[0]}" 2>/dev/null || { echo "the Ray head on $head did not start" >&2; exit 1; }
  ((++waited < ${WAIT:-60})) || { echo "the Ray head on $head does not answer at $address" >&2; exit 1; }
  sleep 2
done
for host in "${nodes[@]:1}"; do node "$host" --address="$address"; done
alive='import ray; ray.init(logging_level="error", log_to_driver=False); print(sum(n["Alive"] for n in ray.nodes()))'
waited=0
until (($(python -c "$alive" || echo 0) >= ${#nodes[@]})); do
  ((++waited < ${WAIT:-60})) || { echo "not all of ${nodes[*]} joined $address; the sweep starts with those that did" >&2; break; }
  sleep 2
done

python -m orchestrator run "$@" &
sweep=$!
code=0
wait "$sweep" || code=$?
sweep=0
exit "$code"
