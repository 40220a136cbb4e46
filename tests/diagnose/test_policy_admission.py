"""What the API server says to a ClusterPolicy is told before it is applied."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tonnage.cli.api_rules import policy_faults
from tonnage.diagnose.policy_admission import driver_admission, policy_admission
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
            {"dcgmExporter": {"serviceMonitor": {"relabelings": [{"actoin": "drop"}]}}},
            ("spec.dcgmExporter.serviceMonitor.relabelings[0].actoin",),
            id="a field of an entry of a list",
        ),
        pytest.param(
            {"daemonsets": {"labels": {"any": "name"}}}, (), id="a name that people choose themselves"
        ),
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


def test_what_has_another_type_is_refused_in_the_servers_words() -> None:
    monitor: JsonObject = {"enabled": "yes", "interval": 15}
    spec: JsonObject = {"gfd": {}, "dcgmExporter": {"serviceMonitor": monitor}}
    faults = policy_faults(
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "a"}, "spec": spec}
    )
    admission = policy_admission(spec, faults)
    assert [words.partition(": ")[0] for words in admission.refused] == [
        "spec.dcgmExporter.serviceMonitor.enabled",
        "spec.dcgmExporter.serviceMonitor.interval",
    ], "sections that are missing are told by themselves"
    assert "devicePlugin" in admission.missing
    assert admission.is_refused


def test_an_nvidiadriver_is_judged_by_its_definition() -> None:
    spec: JsonObject = {"driverType": "gpux", "nodeSelectr": {"a": "b"}, "manager": {"imag": "a"}}
    faults = policy_faults(
        {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "NVIDIADriver",
            "metadata": {"name": "a"},
            "spec": spec,
        }
    )
    admission = driver_admission(spec, faults)
    assert admission.unknown == ("spec.nodeSelectr", "spec.manager.imag")
    assert admission.pruned == {"driverType": "gpux", "manager": {}}
    assert [words.partition(": ")[0] for words in admission.refused] == ["spec.driverType"]
