"""What doctor's findings carry besides words: the facts of their reason, and the node that it is about."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.doctor_patients import SPEC, Sicken, found, runtime_class
from support.sick_node import UUIDS, SickNode, address_of
from tonnage.diagnose.doctor.examine import examine
from tonnage.model.json import JsonObject
from tonnage.model.reasons.gpu.devices import GpuConfigRefused
from tonnage.model.reasons.messages.node_symptoms import (
    DriverNotLoaded,
    GpuLost,
    LibraryVersionMismatch,
    RuntimeHandlerMissing,
)
from tonnage.model.reasons.node.cdi import CdiSpecIncomplete
from tonnage.model.reasons.node.device_nodes import DeviceNodeMissing
from tonnage.model.reasons.node.driver import GpuNotDriven
from tonnage.model.reasons.node.hardware import NoGpuFound
from tonnage.model.reasons.reason import NodeReason

FACTS: dict[str, tuple[Sicken, type[NodeReason], str, JsonObject]] = {
    "a GPU that reads as ones, which explain calls lost": (
        lambda n: n.put(f"sys/bus/pci/devices/{address_of(1)}/config", b"\xff" * 64),
        GpuLost,
        "gpu-off-the-bus",
        {"device": address_of(1)},
    ),
    "a module that is not loaded": (
        SickNode.unload,
        DriverNotLoaded,
        "driver-not-loaded",
        {"module": "nvidia"},
    ),
    "a GPU without a driver": (
        lambda n: n.gpu(1, driver=""),
        GpuNotDriven,
        "gpu-not-driven",
        {"gpus": 2, "driven": 1, "addresses": [address_of(1)]},
    ),
    "a node that is missing": (
        lambda n: n.remove("dev/nvidia1"),
        DeviceNodeMissing,
        "device-node-missing",
        {"paths": ["/dev/nvidia1"]},
    ),
    "libraries of a newer driver": (
        lambda n: n.libraries("595.91.07"),
        LibraryVersionMismatch,
        "library-version-mismatch",
        {"library": "libnvidia-ml.so.1", "version": "595.91.07", "loaded": "580.105.08"},
    ),
    "a GPU that is not in the spec": (
        lambda n: n.put(SPEC, (n.root / SPEC).read_text().replace(UUIDS[1], "GPU-other")),
        CdiSpecIncomplete,
        "cdi-spec-incomplete",
        {"devices": [UUIDS[1]]},
    ),
    "a RuntimeClass whose handler is missing, as explain gives it, too": (
        lambda n: runtime_class(n, used=True),
        RuntimeHandlerMissing,
        "runtime-class-without-handler",
        {"handler": "nvidia", "handlers": ["runc"], "runtime_class": "nvidia"},
    ),
    "a configuration that the agent refuses, as explain gives it, too": (
        lambda n: n.seen_by_cluster(
            conditions=[{"type": "GPUConfigApplied", "status": "False", "message": "line 3; why: no"}]
        ),
        GpuConfigRefused,
        "gpu-config-not-applied",
        {"problem": "line 3"},
    ),
}


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


@pytest.mark.parametrize("case", FACTS)
async def test_a_finding_has_the_facts_of_its_reason_and_its_own_code(node: SickNode, case: str) -> None:
    sicken, kind, code, facts = FACTS[case]
    sicken(node)
    finding = found(examine(await node.facts()), kind)
    assert (finding.code, finding.reason.facts) == (code, facts)
    assert finding.reason.subject == "Node node"


def test_a_reason_of_doctor_alone_has_a_phrase_that_stands_after_a_number_of_nodes() -> None:
    assert NoGpuFound(message="no GPU on the PCI bus").phrase == "with no-gpu-found"
