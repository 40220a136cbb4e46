"""Rules of the whole suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is not a defect: nothing in the suite fails for being slow.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
