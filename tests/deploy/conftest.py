"""Helm in both majors, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.helm import Helm

HELMS = (
    pytest.param(3, id="helm 3", marks=[pytest.mark.long, pytest.mark.sampled("what Helm 3 does as Helm 4")]),
    pytest.param(4, id="helm 4"),
)


@pytest.fixture(params=HELMS)
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    return Helm(request.param, tmp_path)


@pytest.fixture
def helm4(tmp_path: Path) -> Helm:
    """For what does not depend on Helm's version."""
    return Helm(4, tmp_path)
