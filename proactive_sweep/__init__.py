"""The name by which verifiers finds the taskset and its harness: ``vf-eval proactive-sweep`` (docs/environments.md)."""

from orchestrator.environments.verifiers_taskset import ProactiveEnv, ProactiveHarness, ProactiveTaskset

__all__ = ["ProactiveEnv", "ProactiveHarness", "ProactiveTaskset"]
