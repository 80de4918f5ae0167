"""The environment of engines in this process, which their packages read when they are imported."""

import os

from tests.conftest import ENGINE_ENVIRONMENT

os.environ.update({**ENGINE_ENVIRONMENT, **os.environ})
