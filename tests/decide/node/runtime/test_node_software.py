"""What is said of a node's runtime and kubelet: what was seen, else what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.device_list import device_list
from tonnage.decide.node.runtime.node_software import node_software
from tonnage.model.devices.sharing import DeviceListStrategy
from tonnage.model.errors import Problem
from tonnage.model.node.runtime_config import NodeRuntime, RuntimeConfig, RuntimeKind
from tonnage.model.node.software import UNKNOWN, KubeletPolicies, RuntimeInventory, Switch

CONTAINERD, CRIO = RuntimeKind.CONTAINERD, RuntimeKind.CRIO
SILENT = RuntimeConfig(CONTAINERD, ("/c",))
CDI_OFF = RuntimeConfig(CONTAINERD, ("/c",), cdi=False, cdi_where="/c:3")
CDI_ON = RuntimeConfig(CONTAINERD, ("/c",), cdi=True, cdi_where="/c:3")
NRI_ON = RuntimeConfig(CONTAINERD, ("/c",), nri=True, nri_where="/c:7")
BROKEN = RuntimeConfig(CONTAINERD, ("/c",), cdi=True, problems=(Problem("no TOML", "/d"),))
OTHER = RuntimeConfig(CONTAINERD, ("/k3s",), cdi=True, cdi_where="/k3s:1")
ON, OFF, WHO_KNOWS = Switch.ON, Switch.OFF, Switch.UNKNOWN
NEW, OLD = "containerd://2.2.1", "containerd://1.7.24"

CASES = {
    "a default that was seen to hold": (NEW, (SILENT,), ON, ON, "and /c does not say otherwise"),
    "a default of an older one": (OLD, (SILENT,), OFF, OFF, "and /c does not say otherwise"),
    "a configuration that nobody sees": (
        NEW,
        (),
        WHO_KNOWS,
        WHO_KNOWS,
        "on by default, but Tonnage does not see",
    ),
    "the same of an older one": (OLD, (), WHO_KNOWS, WHO_KNOWS, "off by default, but Tonnage does not see"),
    "switched off": (NEW, (CDI_OFF,), OFF, ON, "/c:3"),
    "switched on": (OLD, (CDI_ON,), ON, OFF, "/c:3"),
    "NRI switched on": (OLD, (NRI_ON,), OFF, ON, "by default, and /c does not say otherwise"),
    "specs of another folder alone": (
        *(NEW, (RuntimeConfig(CONTAINERD, ("/c",), cdi_elsewhere="/c:9"),), OFF, ON),
        "it reads no specs in /var/run/cdi: /c:9",
    ),
    "a part that is broken may say anything": (NEW, (BROKEN,), WHO_KNOWS, WHO_KNOWS, "/d: no TOML"),
    "two that disagree": (NEW, (CDI_OFF, OTHER), WHO_KNOWS, ON, "two configurations disagree: /k3s:1, /c:3"),
    "one that cannot": ("containerd://1.6.20", (CDI_ON,), OFF, OFF, "it is older than containerd 1.7"),
    "another runtime's configuration": ("cri-o://1.34.1", (CDI_OFF,), ON, WHO_KNOWS, "since CRI-O 1.23"),
    "CRI-O, whose configuration is seen": (
        *("cri-o://1.34.1", (RuntimeConfig(CRIO, ("/etc/crio/crio.conf",)),), ON, ON),
        "since CRI-O 1.23",
    ),
    "CRI-O before NRI": ("cri-o://1.25.3", (), ON, OFF, "kubelet need 1.28"),
    "one that is not known": ("docker://27.0.1", (), WHO_KNOWS, WHO_KNOWS, "does not know docker 27.0.1"),
    "one whose version says nothing": (
        "containerd://new",
        (),
        WHO_KNOWS,
        WHO_KNOWS,
        "does not know containerd new",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_runtime_does_and_why(case: str) -> None:
    said, configs, cdi, nri, why = CASES[case]
    found = node_software(NodeRuntime("v1.35.8", said, configs), KubeletPolicies()).runtime
    assert (f"{found.name}://{found.version}", found.cdi, found.nri) == (said, cdi, nri)
    assert why in found.cdi_reason
    assert found.nri_reason


def test_before_the_node_says_anything_all_is_unknown_with_the_reason() -> None:
    software = node_software(NodeRuntime(configs=(CDI_ON,)), KubeletPolicies())
    assert (software.kubelet_version, software.runtime.name, software.runtime.version) == (UNKNOWN,) * 3
    assert (software.runtime.cdi, software.runtime.nri) == (WHO_KNOWS, WHO_KNOWS)
    assert "does not say yet" in software.runtime.cdi_reason


NODES = st.builds(
    NodeRuntime,
    kubelet=st.sampled_from(["", "v1.35.8"]) | st.text(max_size=8),
    runtime=st.sampled_from(["", NEW, OLD, "cri-o://1.34.1", "cri-o://1.26.0"]) | st.text(max_size=9),
    configs=st.lists(st.sampled_from([SILENT, CDI_OFF, CDI_ON, NRI_ON, BROKEN, OTHER]), max_size=3).map(
        tuple
    ),
)


@given(NODES)
def test_what_is_published_never_contradicts_what_auto_came_to(node: NodeRuntime) -> None:
    runtime: RuntimeInventory = node_software(node, KubeletPolicies()).runtime
    strategy = device_list(node).strategy
    if runtime.cdi is OFF:
        assert strategy is not DeviceListStrategy.CDI_CRI
    assert runtime.cdi_reason
    assert runtime.nri_reason
