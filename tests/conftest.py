"""Rules of the whole suite."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

# A busy machine is not a defect: nothing in the suite fails for being slow.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_collectstart() -> None:
    """What is collected stays until the end: nobody need look through it for garbage, now or later."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
