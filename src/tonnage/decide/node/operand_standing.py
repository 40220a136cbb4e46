"""How the agent's parts stand, in the order in which one needs the other, and the status files that say so.

Source: NVIDIA/gpu-operator, cmd/nvidia-validator (v26.7): names and contents of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.model.node.software import UNKNOWN
from tonnage.model.operands import OPERAND_LOGS, OPERANDS, READY_FILE, VALIDATIONS

DRIVER_READY: Final = f"{VALIDATIONS}/driver-ready"
TOOLKIT_READY: Final = f"{VALIDATIONS}/toolkit-ready"
PLUGIN_READY: Final = f"{VALIDATIONS}/plugin-ready"
CUDA_READY: Final = f"{VALIDATIONS}/cuda-ready"
_HOST: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """What is known of the parts. `lacking`: resources that are offered and that the Node does not have yet;
    `off`: parts that are switched off.

    `driver_error` is why the devices cannot be read, `device_list` why containers would get none.
    """

    devices: int = 0
    driver_error: str = ""
    driver_root: str = _HOST
    runtime: str = UNKNOWN
    device_list: str = ""
    off: Collection[str] = ()
    offered: Collection[str] = ()
    lacking: Collection[str] = ()
    labelled: bool = False
    validated: bool = False


@dataclass(frozen=True, slots=True)
class StatusFileSet:
    """Texts by path, and the paths of those that may not be there."""

    files: Mapping[str, str]
    absent: tuple[str, ...]


def waits(facts: PartFacts) -> dict[str, str]:
    """By part, why it is not ready; empty: it is."""
    driver = facts.driver_error or ("" if facts.devices else "no device is seen")
    toolkit = driver or (
        "the container runtime is not known yet" if facts.runtime == UNKNOWN else facts.device_list
    )
    plugin = driver
    if not plugin and not facts.offered:
        plugin = "no resource is offered"
    if not plugin and facts.lacking:
        plugin = f"the node does not have {', '.join(sorted(facts.lacking))} yet"
    standing = {
        "container-toolkit": toolkit,
        "operator-validator": toolkit or plugin,
        "device-plugin": plugin,
        "dcgm-exporter": driver,
        "gpu-feature-discovery": driver or ("" if facts.labelled else "no label is published yet"),
        "mig-manager": driver,
        "node-status-exporter": "",
    }
    return standing | dict.fromkeys(facts.off, "it is switched off")


def status_files(facts: PartFacts) -> StatusFileSet:
    """The files of NVIDIA's validator, each only after what it needs, and `ready` of each part."""
    why = waits(facts)
    files = {f"{OPERAND_LOGS}/{part}/{READY_FILE}": "" for part in OPERANDS if not why[part]}
    if facts.devices and not facts.driver_error:
        files[DRIVER_READY] = _driver(facts.driver_root)
        if not why["container-toolkit"]:
            files[TOOLKIT_READY] = ""
            if not why["device-plugin"]:
                files[PLUGIN_READY] = ""
                if facts.validated:
                    files[CUDA_READY] = ""
    return StatusFileSet(files, tuple(path for path in _EVERY if path not in files))


def _driver(root: str) -> str:
    """Variables that NVIDIA's operands source; a driver of the host is seen by them below /host."""
    host = root in ("", _HOST)
    inside = "/host" if host else "/driver-root"
    variables = {
        "IS_HOST_DRIVER": "true" if host else "false",
        "NVIDIA_DRIVER_ROOT": root or _HOST,
        "DRIVER_ROOT_CTR_PATH": inside,
        "NVIDIA_DEV_ROOT": root or _HOST,
        "DEV_ROOT_CTR_PATH": inside,
    }
    return "".join(f"{name}={value}\n" for name, value in variables.items())


_EVERY: Final = (
    *(f"{OPERAND_LOGS}/{part}/{READY_FILE}" for part in OPERANDS),
    *(DRIVER_READY, TOOLKIT_READY, PLUGIN_READY, CUDA_READY),
)
