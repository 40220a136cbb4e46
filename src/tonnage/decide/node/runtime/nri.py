"""Whether NVIDIA's NRI plugin works with a node's runtime. Tonnage itself does without: CDI does the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.decide.node.runtime.change import inventory, unknown
from tonnage.decide.node.runtime.versions import NRI_NEEDS, can_nri, kubelet_cdi, version_of
from tonnage.model.node.runtime_change import NriAnswer, RuntimeSeen
from tonnage.model.node.runtime_config import RuntimeKind
from tonnage.model.node.software import Switch
from tonnage.model.reasons.node.runtime_plans import not_configured

_BY_CDI: Final = "deviceListStrategy: cdi-cri does the same without NRI"
_BY_VARIABLES: Final = "deviceListStrategy: envvar with NVIDIA's container toolkit does without NRI and CDI"
_SWITCH: Final = {
    RuntimeKind.CONTAINERD: 'disable = false under plugins."io.containerd.nri.v1.nri"',
    RuntimeKind.CRIO: "enable_nri = true under crio.nri",
}


def nri_answer(runtime: RuntimeSeen, plugins: Sequence[str] = ()) -> NriAnswer:
    """By version and configuration; `plugins` are what asks for NRI on the node (RUN-3)."""
    version, asking = version_of(runtime.version), tuple(plugins)
    if runtime.refusals:
        return NriAnswer("", asking, runtime.refusals)
    if runtime.kind is None or version is None:
        return NriAnswer("", asking, (unknown(runtime),))
    name = f"{runtime.kind.value} {runtime.version}"
    by_cdi = kubelet_cdi(runtime.kind, version)
    without = _BY_CDI if by_cdi else _BY_VARIABLES
    if not can_nri(runtime.kind, version):
        operator = "; where the GPU operator asks for it: cdi.nriPluginEnabled=false for this node"
        remedy = f"upgrade the runtime, or {without}{operator if asking else ''}"
        text = f"{name} does not support NVIDIA's NRI plugin"
        problem = not_configured(text, runtime.version_source, f"it works with {NRI_NEEDS}", remedy)
        return NriAnswer("", asking, (problem,), by_cdi)
    switches = inventory(runtime)
    if switches.nri is Switch.ON:
        return NriAnswer(switches.nri_reason, asking)
    words = "is off" if switches.nri is Switch.OFF else "may be off"
    remedy = f"{_SWITCH[runtime.kind]}, then restart it; {without}"
    return NriAnswer(
        "", asking, (not_configured(f"NRI {words} in {name}", switches.nri_reason, remedy=remedy),)
    )
