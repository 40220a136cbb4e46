"""What doctor says: findings with stable codes, and a judgement of every layer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.layer import NodeLayer
from tonnage.model.severity import Severity


class DoctorCode(StrEnum):
    """Stable names of findings. Each is documented in `docs/reference/reason-codes.md`."""

    AGENT_NOT_READY = "agent-not-ready"
    AGENT_NOT_RUNNING = "agent-not-running"
    AGENT_STATE = "agent-state-damaged"
    CDI_DEVICE_TWICE = "cdi-device-twice"
    CDI_FOLDER_CROWDED = "cdi-folder-crowded"
    CDI_DISABLED = "cdi-disabled"
    CDI_SPEC_INCOMPLETE = "cdi-spec-incomplete"
    CDI_SPEC_INVALID = "cdi-spec-invalid"
    CDI_SPEC_MISSING = "cdi-spec-missing"
    CDI_SPEC_STALE = "cdi-spec-stale"
    CDI_UNSUPPORTED = "cdi-unsupported"
    CHECKPOINT_UNREADABLE = "kubelet-checkpoint-unreadable"
    CONFIG_REFUSED = "gpu-config-not-applied"
    CONFIG_UNREADABLE = "gpu-config-unreadable"
    CONTAINER_WITHOUT_GPU = "container-without-gpu"
    CUDA_VISIBLE = "cuda-visible-devices-mismatch"
    DRIVER_HANGS = "driver-hangs"
    DRIVER_NOT_LOADED = "driver-not-loaded"
    DRIVER_REFUSES = "driver-refuses"
    FOREIGN_GPU = "container-with-foreign-gpu"
    GPU_NOT_DRIVEN = "gpu-not-driven"
    GPU_OFF_THE_BUS = "gpu-off-the-bus"
    GPU_UNHEALTHY = "gpu-unhealthy"
    HEADERS_MISSING = "kernel-headers-missing"
    IMAGE_NEEDS_DRIVER = "image-needs-newer-driver"
    IMAGE_WITHOUT_CODE = "image-without-code-for-gpu"
    KUBELET_SOCKET_DEAD = "kubelet-socket-dead"
    KUBELET_SOCKET_MISSING = "kubelet-socket-missing"
    KUBELET_SOCKET_UNMOUNTED = "kubelet-socket-not-mounted"
    LABEL_DRIFTED = "label-drifted"
    LIBRARY_MISMATCH = "library-version-mismatch"
    LIBRARY_MISSING = "library-missing"
    LIBRARY_NOT_CACHED = "library-not-cached"
    MEMORY_CROWDED = "gpu-memory-crowded"
    NEXT_KERNEL = "next-kernel-without-driver"
    NODE_MISSING = "device-node-missing"
    NODE_WRONG = "device-node-wrong"
    NOT_ALLOCATABLE = "devices-not-allocatable"
    NOT_REGISTERED = "plugin-not-registered"
    NOUVEAU_BOUND = "nouveau-bound"
    NOUVEAU_NOT_BLACKLISTED = "nouveau-not-blacklisted"
    NO_GPU = "no-gpu-found"
    NO_INJECTION = "no-injection-path"
    NRI_DISABLED = "nri-disabled"
    NRI_UNSUPPORTED = "nri-unsupported"
    NVIDIA_DOCKER2 = "nvidia-docker2-left"
    OPERATOR_MIX = "operator-versions-mixed"
    PLUGIN_SOCKET_DEAD = "plugin-socket-dead"
    POD_REFUSED = "pod-refused-by-plugin"
    POD_RESOURCES_MISSING = "pod-resources-missing"
    RUNTIME_CLASS = "runtime-class-without-handler"
    RUNTIME_CONFIG = "runtime-config-invalid"
    RUNTIME_CRI_OFF = "runtime-cri-disabled"
    RUNTIME_DEFAULT = "nvidia-runtime-default"
    RUNTIME_HANDLER_TWICE = "runtime-handler-twice"
    RUNTIME_PROGRAM = "runtime-program-missing"
    SECURE_BOOT = "secure-boot-refuses-module"
    TOOLKIT_CONFIG = "toolkit-config-invalid"
    TOOLKIT_LDCONFIG = "toolkit-ldconfig-missing"
    TOOLKIT_NO_CGROUPS = "toolkit-no-cgroups"
    TOOLKIT_VARIABLE = "toolkit-refuses-variable"
    TWO_DRIVERS = "two-drivers"
    TWO_PLUGINS = "two-plugins"
    VISIBLE_DEVICES = "visible-devices-mismatch"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, where it is seen (`file:line`, an object), why it matters, what to type."""

    code: DoctorCode
    layer: NodeLayer
    severity: Severity
    what: str
    where: str = ""
    why: str = ""
    remedy: str = ""

    def to_json(self) -> JsonObject:
        """The finding as `doctor -o json` prints it."""
        return {
            "code": self.code.value,
            "layer": self.layer.value,
            "severity": self.severity.value,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "remedy": self.remedy,
        }


class State(StrEnum):
    """How a layer is. UNKNOWN: not judged, or only in part and nothing wrong was found."""

    OK = "ok"
    FAILS = "fails"
    WARNS = "warns"
    UNKNOWN = "unknown"


_ORDER: Final = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One layer: what was found, what is there in a few words, and why it was not judged (in full)."""

    layer: NodeLayer
    findings: tuple[Finding, ...] = ()
    summary: str = ""
    because: str = ""

    @property
    def state(self) -> State:
        """The worst of what was found."""
        severities = {finding.severity for finding in self.findings}
        if Severity.ERROR in severities:
            return State.FAILS
        if Severity.WARNING in severities:
            return State.WARNS
        return State.UNKNOWN if self.because else State.OK

    def to_json(self) -> JsonObject:
        """The layer as `doctor -o json` prints it."""
        return {
            "layer": self.layer.value,
            "state": self.state.value,
            "summary": self.summary,
            "because": self.because,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Every layer that was looked at, in their order."""

    node: str
    layers: tuple[Judgement, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them: by layer, in one layer the worst first."""
        return tuple(
            finding
            for layer in self.layers
            for finding in sorted(layer.findings, key=lambda each: _ORDER.index(each.severity))
        )

    @property
    def first(self) -> Judgement | None:
        """The first layer that fails; of those that only warn the first, where none fails."""
        for state in (State.FAILS, State.WARNS):
            found = next((layer for layer in self.layers if layer.state is state), None)
            if found is not None:
                return found
        return None

    @property
    def healthy(self) -> bool:
        """Whether nothing wrong was found; what could not be judged counts as neither."""
        return self.first is None

    def to_json(self) -> JsonObject:
        """The whole answer."""
        return {
            "node": self.node,
            "healthy": self.healthy,
            "first": self.first.layer.value if self.first else None,
            "layers": [layer.to_json() for layer in self.layers],
            "findings": [finding.to_json() for finding in self.findings],
        }


def error(code: DoctorCode, layer: NodeLayer, what: str, **said: str) -> Finding:
    """A finding of the severity of that name; `where`, `why` and `remedy` by keyword."""
    return Finding(code, layer, Severity.ERROR, what, **said)


def warning(code: DoctorCode, layer: NodeLayer, what: str, **said: str) -> Finding:
    """As `error`, less bad."""
    return Finding(code, layer, Severity.WARNING, what, **said)


def note(code: DoctorCode, layer: NodeLayer, what: str, **said: str) -> Finding:
    """As `error`, nothing bad."""
    return Finding(code, layer, Severity.NOTE, what, **said)


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "GPU"), counted(3, "GPU"), counted(2, "library", "libraries")
    ('1 GPU', '3 GPUs', '2 libraries')
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def listed(names: tuple[str, ...] | list[str], most: int = 4) -> str:
    """The first few, and how many more.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
