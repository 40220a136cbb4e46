"""Is there a way for GPUs into containers: CDI, NRI, or NVIDIA's runtime?"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.node.cdi.spec import wants_cdi
from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    NRI_NEEDS,
    can_cdi,
    can_nri,
    cdi_setting,
)
from tonnage.diagnose.doctor.containers.runtime_version import CONFIGURE, ExaminedRuntime, unit_of
from tonnage.diagnose.doctor.finding import NodeFinding, finding, listed
from tonnage.model.node.facts import NodeFacts
from tonnage.model.node.runtime_config import CDI_FOLDER
from tonnage.model.reasons.node.runtime import (
    CdiDisabled,
    CdiUnsupported,
    NoInjectionPath,
    NriDisabled,
    NriUnsupported,
)


def injection_findings(runtime: ExaminedRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    """What keeps GPUs out although they are there."""
    yield from _cdi(runtime, facts)
    yield from _nri(runtime)
    yield from _no_way(runtime, facts)


def _cdi(runtime: ExaminedRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    config = facts.plugin.config if facts.plugin is not None else None
    if config is None or not wants_cdi(config) or runtime.cdi is not False:
        return
    asks = "the agent's configuration names devices by CDI"
    if runtime.version is not None and not can_cdi(runtime.kind, runtime.version):
        yield finding(
            CdiUnsupported(
                message=f"{runtime.name} does not support CDI",
                remedy="upgrade the runtime, or deviceListStrategy: envvar",
                runtime=runtime.name,
            ),
            where=listed(runtime.config.files, 2),
            why=f"{asks}; it works with {CDI_NEEDS}",
        )
    elif runtime.config.cdi_elsewhere:
        yield finding(
            CdiDisabled(
                message=f"{runtime.name} reads no CDI specs in {CDI_FOLDER}",
                remedy=f'add "{CDI_FOLDER}" to cdi_spec_dirs, then systemctl restart {unit_of(runtime.kind)}',
                runtime=runtime.name,
            ),
            where=runtime.config.cdi_elsewhere,
            why=f"{asks}, whose specs are written there: 'unresolvable CDI devices'",
        )
    else:
        silent = runtime.config.cdi_replaced or listed(runtime.config.files, 1)
        yield finding(
            CdiDisabled(
                message=f"CDI is off in {runtime.name}",
                remedy="on the node, tonnage runtime plan shows the change, tonnage runtime apply makes it",
                runtime=runtime.name,
            ),
            where=silent
            if cdi_setting(runtime.config, runtime.version) is None
            else runtime.config.cdi_where,
            why=f"{asks}; containers start without them",
        )


def _nri(runtime: ExaminedRuntime) -> Iterator[NodeFinding]:
    """RUN-3."""
    plugins = runtime.facts.nri_plugins
    if not plugins:
        return
    if runtime.version is not None and not can_nri(runtime.kind, runtime.version):
        yield finding(
            NriUnsupported(
                message=f"NRI is requested, but {runtime.name} does not support NVIDIA's plugin",
                remedy="cdi.nriPluginEnabled=false for this node's ClusterPolicy, or upgrade the runtime",
                runtime=runtime.name,
            ),
            where=plugins[0],
            why=f"it works with {NRI_NEEDS}",
        )
    elif runtime.nri is False:
        yield finding(
            NriDisabled(
                message=f"NRI is requested, but off in {runtime.name}",
                remedy="disable = false under io.containerd.nri.v1.nri (CRI-O: enable_nri = true), then"
                " restart",
                runtime=runtime.name,
            ),
            where=runtime.config.nri_where or plugins[0],
            why="the plugin waits for a socket that the runtime does not open",
        )


def _no_way(runtime: ExaminedRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    """RUN-2: a container starts, and nvidia-smi is not found."""
    handlers = [handler for handler in runtime.config.handlers.values() if handler.is_nvidia]
    specs = [
        spec
        for spec in (facts.cdi.specs if facts.cdi is not None else ())
        if spec.document is not None and "nvidia.com" in str(spec.document.get("kind"))
    ]
    by_cdi = bool(specs) and runtime.cdi is not False
    if handlers or by_cdi or runtime.facts.hooks or runtime.facts.nri_plugins:
        return
    if not runtime.config.files or any(config.problems for config in runtime.facts.configs):
        return  # what stands there is not known
    config = facts.plugin.config if facts.plugin is not None else None
    if config is not None and wants_cdi(config):
        return  # a missing or refused spec is told of where specs are
    off = " and CDI is off" if specs else " and there is no CDI spec"
    tool = "installed" if runtime.facts.programs else "not installed"
    yield finding(
        NoInjectionPath(
            message=f"containers get no GPU: {runtime.name} has no NVIDIA runtime handler{off}",
            remedy="deviceListStrategy: [cdi-cri] for the agent, which needs no toolkit; or install"
            f" nvidia-container-toolkit && {CONFIGURE}",
            runtime=runtime.name,
        ),
        where=listed(runtime.config.files, 2) or "/etc/cdi",
        why=f"NVIDIA's container toolkit is {tool}. Containers start without nvidia-smi",
    )
