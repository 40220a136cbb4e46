"""What keeps the container runtime from bringing GPUs into containers."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class NodeRuntimeReason(NodeFault):
    """What lies with the container runtime."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.RUNTIME
    layer: Layer = Layer.RUNTIME


@reason
class CdiDisabled(NodeRuntimeReason):
    """The agent names devices by CDI, but CDI is off in the runtime."""

    code: ClassVar[str] = "cdi-disabled"
    advice: ClassVar[str] = "switch it on"
    runtime: str


@reason
class CdiUnsupported(NodeRuntimeReason):
    """The runtime is too old for CDI."""

    code: ClassVar[str] = "cdi-unsupported"
    advice: ClassVar[str] = "upgrade it, or use another device list strategy"
    runtime: str


@reason
class NoInjectionPath(NodeRuntimeReason):
    """Nothing would bring a GPU into a container."""

    code: ClassVar[str] = "no-injection-path"
    advice: ClassVar[str] = "use CDI, or install NVIDIA's toolkit"
    runtime: str


@reason
class NriDisabled(NodeRuntimeReason):
    """NVIDIA's NRI plugin is requested, but NRI is off in the runtime."""

    code: ClassVar[str] = "nri-disabled"
    advice: ClassVar[str] = "switch it on"
    runtime: str


@reason
class NriUnsupported(NodeRuntimeReason):
    """NVIDIA's NRI plugin is requested, but does not work with this runtime."""

    code: ClassVar[str] = "nri-unsupported"
    advice: ClassVar[str] = "disable it on this node, or upgrade"
    runtime: str


@reason
class NvidiaDocker2Left(NodeRuntimeReason):
    """The superseded package nvidia-docker2 is installed."""

    code: ClassVar[str] = "nvidia-docker2-left"
    advice: ClassVar[str] = "purge it"
    severity: ClassVar[Severity] = Severity.WARNING
    version: str


@reason
class NvidiaRuntimeDefault(NodeRuntimeReason):
    """A note: any pod may see every GPU by a variable."""

    code: ClassVar[str] = "nvidia-runtime-default"
    advice: ClassVar[str] = "use CDI, with runc as the default"
    severity: ClassVar[Severity] = Severity.NOTE
    handler: str


@reason
class OperatorVersionsMixed(NodeRuntimeReason):
    """Toolkit or plugin is of another minor version than the GPU operator was released with."""

    code: ClassVar[str] = "operator-versions-mixed"
    advice: ClassVar[str] = "use the released version"
    severity: ClassVar[Severity] = Severity.WARNING
    component: str
    version: str
    operator: str
    expected: str


@reason
class RuntimeConfigInvalid(NodeRuntimeReason):
    """A configuration of the runtime is not valid TOML, or cannot be read."""

    code: ClassVar[str] = "runtime-config-invalid"
    advice: ClassVar[str] = "correct it"
    runtime: str
    problem: str


class RuntimeCriDisabled(NodeRuntimeReason):
    """Containerd's CRI plugin is switched off."""

    code: ClassVar[str] = "runtime-cri-disabled"
    advice: ClassVar[str] = "remove `cri` from `disabled_plugins`"


@reason
class RuntimeHandlerTwice(NodeRuntimeReason):
    """A template of k3s or RKE2 adds handler `nvidia`, and they find its program by themselves now:
    containerd does not start with a table that is there twice."""

    code: ClassVar[str] = "runtime-handler-twice"
    advice: ClassVar[str] = "`tonnage runtime undo`, or remove it from the template; then restart"
    program: str


@reason
class RuntimeProgramMissing(NodeRuntimeReason):
    """The program of a runtime handler is missing."""

    code: ClassVar[str] = "runtime-program-missing"
    advice: ClassVar[str] = "install it"
    handler: str
    program: str


REASONS: Final[tuple[type[NodeReason], ...]] = (
    CdiDisabled,
    CdiUnsupported,
    NoInjectionPath,
    NriDisabled,
    NriUnsupported,
    NvidiaDocker2Left,
    NvidiaRuntimeDefault,
    OperatorVersionsMixed,
    RuntimeConfigInvalid,
    RuntimeCriDisabled,
    RuntimeHandlerTwice,
    RuntimeProgramMissing,
)
