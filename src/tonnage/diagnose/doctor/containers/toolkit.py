"""Faults of NVIDIA's container toolkit's own configuration.

Source: nvidia-container-toolkit v1.20, `/etc/nvidia-container-runtime/config.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from tonnage.diagnose.doctor.finding import NodeFinding, finding
from tonnage.model.layer import NodeLayer
from tonnage.model.node.runtime_config import ToolkitConfig
from tonnage.model.reasons.messages.node_symptoms import ToolkitLdconfigMissing
from tonnage.model.reasons.node.toolkit import ToolkitConfigInvalid, ToolkitNoCgroups, ToolkitRefusesVariable
from tonnage.model.severity import Severity

_LAYER: Final = NodeLayer.RUNTIME
_MODES: Final = ("auto", "legacy", "csv", "cdi", "jit-cdi")


def toolkit_findings(
    config: ToolkitConfig, existing: frozenset[str], *, by_variable: bool
) -> Iterator[NodeFinding]:
    """`existing` are those of the paths in it that are there; `by_variable`: so the agent names devices."""
    legacy = config.mode in ("", "auto", "legacy")
    yield from _unusable(config)
    yield from _paths(config, existing, legacy=legacy)
    if legacy and config.no_cgroups:
        yield finding(
            ToolkitNoCgroups(
                message="the container toolkit does not set up control groups (no-cgroups = true)",
                remedy="nvidia-ctk config --in-place --set nvidia-container-cli.no-cgroups=false",
            ),
            where=config.no_cgroups,
            why="containers see GPUs but may not open them: 'Failed to initialize NVML: Unknown Error'."
            " The setting is for rootless Docker",
        )
    if config.unprivileged_variable is False and legacy and by_variable:
        yield finding(
            ToolkitRefusesVariable(
                message="the container toolkit ignores NVIDIA_VISIBLE_DEVICES of unprivileged containers",
                remedy="deviceListStrategy: cdi-cri, or volume-mounts with"
                " accept-nvidia-visible-devices-as-volume-mounts = true",
            ),
            where=config.unprivileged_where,
            why="with deviceListStrategy envvar such containers get no GPU",
        )


def _unusable(config: ToolkitConfig) -> Iterator[NodeFinding]:
    for problem in config.problems:
        unreadable = problem.why.startswith("permission denied")
        yield finding(
            ToolkitConfigInvalid(
                message=f"the container toolkit's configuration: {problem.what}",
                remedy="run doctor as root"
                if unreadable
                else "correct it, or: nvidia-ctk config --in-place --set x=y",
                problem=problem.what,
            ),
            where=problem.where,
            why=problem.why,
            severity=Severity.NOTE if unreadable else Severity.ERROR,
        )
    if config.mode and config.mode not in _MODES:
        near = get_close_matches(config.mode, _MODES, n=1)
        yield finding(
            ToolkitConfigInvalid(
                message=f"the container toolkit has no mode {config.mode!r}",
                remedy="nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto",
                problem=f"no mode {config.mode!r}",
            ),
            where=config.mode_where,
            why=f"it knows {', '.join(_MODES)}{f'; did you mean {near[0]}?' if near else ''}",
        )


def _paths(config: ToolkitConfig, existing: frozenset[str], *, legacy: bool) -> Iterator[NodeFinding]:
    if legacy and config.ldconfig and config.ldconfig.lstrip("@") not in existing:
        yield finding(
            ToolkitLdconfigMissing(
                subject="",
                message=f"the container toolkit's ldconfig is missing: {config.ldconfig}",
                remedy="nvidia-ctk config --in-place --set nvidia-container-cli.ldconfig=@/sbin/ldconfig",
                path=config.ldconfig,
            ),
            where=config.ldconfig_where,
            why="containers fail with 'ldcache error: open failed'",
        )
    if config.root and config.root not in existing:
        yield finding(
            ToolkitConfigInvalid(
                message=f"the container toolkit looks for the driver in {config.root}, which does not exist",
                remedy="remove root if the driver is the host's, or install the driver there",
                problem=f"folder not found: {config.root}",
            ),
            where=config.root_where,
            why="containers fail with 'load library failed: libnvidia-ml.so.1'",
        )
