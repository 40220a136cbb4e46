"""How the parts of the agent stand, and which status files say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.node.operand_standing import PartFacts, status_files, waits

READY = PartFacts(devices=1, runtime="containerd", offered=("nvidia.com/gpu",), labelled=True)
PARTS = {
    *("container-toolkit", "operator-validator", "device-plugin", "dcgm-exporter"),
    *("gpu-feature-discovery", "mig-manager", "node-status-exporter"),
}
_VALIDATIONS = "/run/nvidia/validations/"


@pytest.mark.parametrize(
    ("facts", "ready", "validated"),
    [
        pytest.param(PartFacts(), {"node-status-exporter"}, set(), id="nothing seen yet"),
        pytest.param(
            replace(READY, driver_error="NVML: Driver Not Loaded"),
            {"node-status-exporter"},
            set(),
            id="no driver: nothing after it is ready",
        ),
        pytest.param(
            replace(READY, device_list="no CDI, and no runtime of NVIDIA's"),
            PARTS - {"container-toolkit", "operator-validator"},
            {"driver-ready"},
            id="containers would get nothing",
        ),
        pytest.param(
            replace(READY, lacking=("nvidia.com/gpu",)),
            PARTS - {"device-plugin", "operator-validator"},
            {"driver-ready", "toolkit-ready"},
            id="kubelet does not know the devices yet",
        ),
        pytest.param(
            READY, PARTS, {"driver-ready", "toolkit-ready", "plugin-ready"}, id="all but a workload"
        ),
        pytest.param(
            replace(READY, validated=True),
            PARTS,
            {"driver-ready", "toolkit-ready", "plugin-ready", "cuda-ready"},
            id="a workload has used the devices",
        ),
    ],
)
def test_files_follow_the_order_of_the_parts(facts: PartFacts, ready: set[str], validated: set[str]) -> None:
    files = status_files(facts)
    assert {path.split("/")[4] for path in files.files if path.endswith("/ready")} == ready
    assert {
        path.removeprefix(_VALIDATIONS) for path in files.files if path.startswith(_VALIDATIONS)
    } == validated
    assert not {*files.files} & {*files.absent}
    assert len(files.files) + len(files.absent) == len(PARTS) + 4, "each is there, or taken away"


@pytest.mark.parametrize(
    ("root", "host", "inside"),
    [
        pytest.param("/", "true", "/host", id="the host's own driver"),
        pytest.param("/run/nvidia/driver", "false", "/driver-root", id="that of a container"),
    ],
)
def test_operands_source_where_the_driver_is(root: str, host: str, inside: str) -> None:
    text = status_files(replace(READY, driver_root=root)).files[f"{_VALIDATIONS}driver-ready"]
    variables = dict(line.split("=") for line in text.splitlines())
    assert (variables["IS_HOST_DRIVER"], variables["NVIDIA_DRIVER_ROOT"]) == (host, root)
    assert variables["DRIVER_ROOT_CTR_PATH"] == inside


def test_what_a_part_waits_for_is_said() -> None:
    assert waits(replace(READY, lacking=("nvidia.com/gpu",)))["device-plugin"] == (
        "the node does not have nvidia.com/gpu yet"
    )
