"""Is there a way for GPUs into containers: CDI, NRI, or NVIDIA's runtime?"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.node.cdi.spec import wants_cdi
from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    NRI_NEEDS,
    can_cdi,
    can_nri,
    cdi_said,
)
from tonnage.diagnose.doctor.finding import NodeFinding, finding, listed
from tonnage.diagnose.doctor.versions import CONFIGURE, NodeRuntime, unit_of
from tonnage.model.node.facts import NodeFacts
from tonnage.model.node.runtime_config import CDI_FOLDER
from tonnage.model.reasons.node.runtime import (
    CdiDisabled,
    CdiUnsupported,
    NoInjectionPath,
    NriDisabled,
    NriUnsupported,
)


def injection_findings(seen: NodeRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    """What keeps GPUs out although they are there."""
    yield from _cdi(seen, facts)
    yield from _nri(seen)
    yield from _no_way(seen, facts)


def _cdi(seen: NodeRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    config = facts.plugin.config if facts.plugin is not None else None
    if config is None or not wants_cdi(config) or seen.cdi is not False:
        return
    asks = "the agent's configuration names devices by CDI"
    if seen.version is not None and not can_cdi(seen.kind, seen.version):
        yield finding(
            CdiUnsupported(
                message=f"{seen.name} knows no CDI",
                remedy="upgrade the runtime, or deviceListStrategy: envvar",
                runtime=seen.name,
            ),
            where=listed(seen.config.files, 2),
            why=f"{asks}; it works with {CDI_NEEDS}",
        )
    elif seen.config.cdi_elsewhere:
        yield finding(
            CdiDisabled(
                message=f"{seen.name} reads no CDI specs of {CDI_FOLDER}",
                remedy=f'add "{CDI_FOLDER}" to cdi_spec_dirs, then systemctl restart {unit_of(seen.kind)}',
                runtime=seen.name,
            ),
            where=seen.config.cdi_elsewhere,
            why=f"{asks}, whose specs are written there: 'unresolvable CDI devices'",
        )
    else:
        silent = seen.config.cdi_replaced or listed(seen.config.files, 1)
        yield finding(
            CdiDisabled(
                message=f"CDI is off in {seen.name}",
                remedy="tonnage runtime plan on the node shows the change, tonnage runtime apply makes it",
                runtime=seen.name,
            ),
            where=silent if cdi_said(seen.config, seen.version) is None else seen.config.cdi_where,
            why=f"{asks}; containers start without them",
        )


def _nri(seen: NodeRuntime) -> Iterator[NodeFinding]:
    """RUN-3."""
    wanted = seen.facts.nri_plugins
    if not wanted:
        return
    if seen.version is not None and not can_nri(seen.kind, seen.version):
        yield finding(
            NriUnsupported(
                message=f"NRI is asked for, and {seen.name} does not support NVIDIA's plugin",
                remedy="cdi.nriPluginEnabled=false for this node's ClusterPolicy, or upgrade the runtime",
                runtime=seen.name,
            ),
            where=wanted[0],
            why=f"it works with {NRI_NEEDS}",
        )
    elif seen.nri is False:
        yield finding(
            NriDisabled(
                message=f"NRI is asked for, and off in {seen.name}",
                remedy="disable = false under io.containerd.nri.v1.nri (CRI-O: enable_nri = true), then"
                " restart",
                runtime=seen.name,
            ),
            where=seen.config.nri_where or wanted[0],
            why="the plugin waits for a socket that nobody opens",
        )


def _no_way(seen: NodeRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    """RUN-2: a container starts, and nvidia-smi is not found."""
    handlers = [each for each in seen.config.handlers.values() if each.is_nvidia]
    specs = [
        spec
        for spec in (facts.cdi.specs if facts.cdi is not None else ())
        if spec.document is not None and "nvidia.com" in str(spec.document.get("kind"))
    ]
    by_cdi = bool(specs) and seen.cdi is not False
    if handlers or by_cdi or seen.facts.hooks or seen.facts.nri_plugins:
        return
    if not seen.config.files or any(config.problems for config in seen.facts.configs):
        return  # what stands there is not known
    config = facts.plugin.config if facts.plugin is not None else None
    if config is not None and wants_cdi(config):
        return  # a missing or refused spec is told of where specs are
    off = " and CDI is off" if specs else "; there is no CDI spec either"
    tool = "installed" if seen.facts.programs else "not installed"
    yield finding(
        NoInjectionPath(
            message=f"no GPU gets into a container: {seen.name} has no NVIDIA runtime handler{off}",
            remedy="deviceListStrategy: [cdi-cri] for the agent, which needs no toolkit; or install"
            f" nvidia-container-toolkit && {CONFIGURE}",
            runtime=seen.name,
        ),
        where=listed(seen.config.files, 2) or "/etc/cdi",
        why=f"NVIDIA's container toolkit is {tool}. Containers start, and 'nvidia-smi' is not found in them",
    )
