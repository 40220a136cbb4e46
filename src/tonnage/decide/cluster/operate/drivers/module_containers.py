"""Containers beside the driver's that build other kernel modules: GPUDirect Storage, GDRCopy, peer memory.

Source: NVIDIA/gpu-operator v26.7, manifests/state-driver: names, programs and mounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.decide.cluster.operate.drivers.images import for_system, module_fields
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, items, mapping, text
from tonnage.model.operands import VALIDATIONS

_PROGRAMS: Final = {
    "gds": ("nvidia-fs-ctr", "nvidia_fs", "nvidia-gds-driver", "nvidia-fs-ready"),
    "gdrcopy": ("nvidia-gdrcopy-ctr", "gdrdrv", "nvidia-gdrcopy-driver", "gdrcopy-ready"),
}
"""By section: the container's name, its kernel module, the program that builds it, and the status file."""
_DRIVER_IS_THERE: Final = "test -d /run/nvidia/driver/usr/src && test -e /sys/module/nvidia/refcnt"
_PROBE_TIMES: Final[JsonObject] = {"initialDelaySeconds": 10, "periodSeconds": 10, "timeoutSeconds": 10}
LAST_WORDS: Final[JsonObject] = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""So kubelet says why a container ended: its own log is what NVIDIA's images write."""
_PRIVILEGED: Final[JsonObject] = {"privileged": True, "seLinuxOptions": {"level": "s0"}}
_LOGS: Final[tuple[JsonValue, ...]] = (
    {"name": "var-log", "mountPath": "/var/log"},
    {"name": "dev-log", "mountPath": "/dev/log", "readOnly": True},
)


def module_containers(group: DriverGroup) -> Iterator[JsonObject]:
    """Those that the policy asks for, each ready once its module is loaded, which a status file says then."""
    pod = dict(group.policy.pod)
    if flag(pod, "rdma", "enabled"):
        yield _peer_memory(group)
    for section, (name, module, program, ready) in _PROGRAMS.items():
        if section not in pod:
            continue
        settings = mapping(pod, section)
        container: JsonObject = {
            "name": name,
            "image": _image(group, section),
            "imagePullPolicy": text(settings, "imagePullPolicy") or "IfNotPresent",
            "command": ["sh", "-c", f"until {_DRIVER_IS_THERE}; do sleep 5; done; exec {program} install"],
            "env": items(settings, "env"),
            **LAST_WORDS,
            "securityContext": _PRIVILEGED,
            "volumeMounts": [
                {"name": "run-nvidia", "mountPath": "/run/nvidia", "mountPropagation": "HostToContainer"},
                *_LOGS,
            ],
            **_shown(f"test -e /sys/module/{module}", ready),
        }
        yield container


def _shown(loaded: str, ready: str) -> JsonObject:
    """Probes that look for a module by a command, and keep NVIDIA's status file of it."""
    file = f"{VALIDATIONS}/{ready}"
    looks: JsonObject = {
        "exec": {"command": ["sh", "-c", f"{loaded} && mkdir -p {VALIDATIONS} && touch {file}"]},
        **_PROBE_TIMES,
    }
    return {
        "startupProbe": {**looks, "failureThreshold": 120},
        "livenessProbe": {**looks, "periodSeconds": 30, "failureThreshold": 1},
        "lifecycle": {"preStop": {"exec": {"command": ["rm", "-f", file]}}},
    }


def _image(group: DriverGroup, section: str) -> str:
    return for_system(module_fields(group.policy, section), group.os_tag)


def driver_images(group: DriverGroup) -> tuple[str, ...]:
    """Each image that is there for some systems alone: the driver's, then those of modules beside it."""
    return group.image, *(_image(group, section) for section in _PROGRAMS if section in group.policy.pod)


def module_variables(group: DriverGroup) -> dict[str, str]:
    """By which the driver's container says in its ready file what is built beside it."""
    return {f"{section.upper()}_ENABLED": "true" for section in _PROGRAMS if section in group.policy.pod}


def module_pull_secrets(group: DriverGroup) -> list[JsonValue]:
    """The Secrets that their images are pulled with."""
    pod = dict(group.policy.pod)
    return [secret for section in _PROGRAMS for secret in items(pod, section, "imagePullSecrets")]


def _peer_memory(group: DriverGroup) -> JsonObject:
    return {
        "name": "nvidia-peermem-ctr",
        "image": group.image,
        "imagePullPolicy": text(dict(group.policy.pod), "imagePullPolicy") or "IfNotPresent",
        "command": ["nvidia-driver"],
        "args": ["reload_nvidia_peermem"],
        **_shown("nvidia-driver probe_nvidia_peermem", "nvidia-peermem-ready"),
        **LAST_WORDS,
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"name": "run-nvidia", "mountPath": "/run/nvidia", "mountPropagation": "Bidirectional"},
            *_LOGS,
            {
                "name": "run-mellanox-drivers",
                "mountPath": "/run/mellanox/drivers",
                "mountPropagation": "HostToContainer",
            },
        ],
    }
