"""The fixtures of the core's tests, for the tests of extras."""

from tests.conftest import cli, demo_data, pytest_runtest_setup, ray_address, tiny_checkpoint

__all__ = ["cli", "demo_data", "pytest_runtest_setup", "ray_address", "tiny_checkpoint"]
