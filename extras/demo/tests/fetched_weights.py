"""The mark of tests that need SmolLM2-135M on this machine."""

import pytest

from orchestrator.inspection.model_check import local_fault
from sweeps.registry import registry

needs_smollm2 = pytest.mark.skipif(
    bool(local_fault(registry()["smollm2-135m"])), reason="`proactive-sweep models fetch smollm2-135m` was not run"
)
