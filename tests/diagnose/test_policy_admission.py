"""What the API server says to a ClusterPolicy is told before it is applied."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tonnage.diagnose.policy_admission import policy_admission
from tonnage.model.json import JsonObject

CHART = Path(__file__).parents[1] / "data/cluster-policy-26.7.yaml"
SPEC: JsonObject = yaml.safe_load(CHART.read_text(encoding="utf-8"))["spec"]


def test_what_nvidias_chart_renders_is_taken_as_it_is() -> None:
    admission = policy_admission(SPEC)
    assert (admission.missing, admission.unknown, admission.pruned) == ((), (), SPEC)


@pytest.mark.parametrize(
    ("more", "unknown"),
    [
        pytest.param(
            {"driver": {"enabled": True, "rollingUpdate": {"maxUnavailable": "1"}}},
            ("spec.driver.rollingUpdate",),
            id="a field of an older release",
        ),
        pytest.param({"gdx": {}}, ("spec.gdx",), id="a section that there is not"),
        pytest.param(
            {"validator": {"plugin": None, "env": []}}, (), id="a section that is empty, as people indent it"
        ),
    ],
)
def test_unknown_fields_are_dropped(more: JsonObject, unknown: tuple[str, ...]) -> None:
    admission = policy_admission({**SPEC, **more})
    assert admission.unknown == unknown
    assert policy_admission(admission.pruned).unknown == ()


def test_sections_that_the_definition_requires_are_missed() -> None:
    spec = {key: value for key, value in SPEC.items() if key not in ("dcgm", "gfd")}
    assert policy_admission(spec).missing == ("dcgm", "gfd")
