"""The complete run of the baselines that the tests of the report read."""

from tests.orchestrator.report.conftest import run as run
from tests.orchestrator.report.conftest import run_data as run_data
