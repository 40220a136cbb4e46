"""Are CDI specs there where they are wanted, valid, and of this driver?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.cdi.shape import normal_spec
from tonnage.decide.node.cdi.spec import wants_cdi
from tonnage.diagnose.doctor.finding import AGENT_PODS, Judgement, NodeFinding, counted, finding, listed
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.layer import NodeLayer
from tonnage.model.names import CDI_GPU_KIND, CDI_VENDOR
from tonnage.model.node.facts import CdiFacts, SpecDocument
from tonnage.model.reasons.node.cdi import (
    CdiDeviceTwice,
    CdiFolderCrowded,
    CdiSpecIncomplete,
    CdiSpecInvalid,
    CdiSpecMissing,
    CdiSpecStale,
)
from tonnage.model.severity import Severity

_LAYER: Final = NodeLayer.CDI
_LIBRARY: Final = re.compile(r"/lib(?:cuda|nvidia-[a-z0-9-]+)\.so\.(\d+\.\d+(?:\.\d+)?)$")
_NVIDIA: Final = ("nvidia.com/", "management.nvidia.com/", f"{CDI_VENDOR}/")
_OURS_AGAIN: Final = "the agent writes it again by itself; if it does not, see the layer plugin"


def judge_cdi(
    facts: CdiFacts, version: str, inventory: Inventory | None, config: PluginConfig | None
) -> Judgement:
    """`version` is the loaded driver's, empty where staleness cannot be told; `config` the agent's."""
    wrong = {spec.path: _problem(spec) for spec in facts.specs}
    valid = [_normal(spec) for spec in facts.specs if not wrong[spec.path]]
    findings = [_crowded(folder, number) for folder, number in facts.crowded.items()]
    findings += [_invalid(spec, wrong[spec.path]) for spec in facts.specs if wrong[spec.path]]
    findings += [stale for spec in valid if (stale := _stale(spec, facts, version)) is not None]
    findings += _twice(valid)
    if config is not None and wants_cdi(config):
        findings += _missing_specs(valid, inventory)
    kinds = sorted({_kind(spec) for spec in valid})
    summary = f"{counted(len(valid), 'spec')}: {listed(kinds)}" if valid else "no specs"
    return Judgement(_LAYER, tuple(findings), summary)


def _normal(spec: SpecDocument) -> SpecDocument:
    return replace(spec, document=normal_spec(spec.document or {}))


def _crowded(folder: str, number: int) -> NodeFinding:
    return finding(
        CdiFolderCrowded(
            message=f"{folder} has {number} CDI specs, of which only the first by name were read",
            remedy=f"tonnage cdi validate {folder}; find the program that writes them, and remove those"
            " that are not needed",
            folder=folder,
            specs=number,
        ),
        where=folder,
        why="runtimes read each of them again whenever one changes",
    )


def _problem(spec: SpecDocument) -> str:
    if spec.document is None:
        return spec.trouble or "failed to parse CDI Spec"
    problems = spec_problems(spec.document)
    return f"{problems[0].where}: {problems[0].what}" if problems else ""


def _kind(spec: SpecDocument) -> str:
    return str((spec.document or {}).get("kind") or "")


def _invalid(spec: SpecDocument, problem: str) -> NodeFinding:
    unreadable = spec.trouble.startswith("permission denied")
    return finding(
        CdiSpecInvalid(
            message=f"{spec.path} {'cannot be read' if unreadable else 'is refused by container runtimes'}",
            remedy="run doctor as root"
            if unreadable
            else f"tonnage cdi validate {spec.path}; then {_again(spec)}",
            path=spec.path,
            problem=problem,
        ),
        where=spec.path,
        why=f"{problem}; its devices are 'unresolvable CDI devices'"[:500],
        severity=Severity.WARNING if unreadable else Severity.ERROR,
    )


def _again(spec: SpecDocument) -> str:
    kind = _kind(spec)
    if kind.startswith(f"{CDI_VENDOR}/") or CDI_VENDOR in spec.path:
        return _OURS_AGAIN
    if kind.startswith("nvidia.com/") or "nvidia" in spec.path:
        return f"tonnage cdi generate --file {spec.path}  (or: nvidia-ctk cdi generate --output={spec.path})"
    return f"remove it, or write it again: {spec.path}"


def _stale(spec: SpecDocument, facts: CdiFacts, version: str) -> NodeFinding | None:
    """Only NVIDIA's: what others name may come later."""
    if spec.document is None or not _kind(spec).startswith(_NVIDIA):
        return None
    paths = sorted(set(_paths(spec.document)))
    others = {match[1] for path in paths if (match := _LIBRARY.search(path))} - {version}
    missing = [path for path in paths if path in facts.missing]
    if version and others and not any(path.endswith(f".so.{version}") for path in paths):
        text = f"{spec.path} is of driver {listed(sorted(others))}, {version} is loaded"
        why = "containers get libraries that are missing or do not match the module"
    elif missing:
        text = f"{spec.path} names {counted(len(missing), 'path')}, which does not exist"
        why = f"{listed(missing, 3)}: containers stay in ContainerCreating, 'failed to stat CDI host device'"
    else:
        return None
    return finding(
        CdiSpecStale(
            message=text,
            remedy=_again(spec),
            path=spec.path,
            drivers=tuple(sorted(others)),
            missing=tuple(missing),
        ),
        where=spec.path,
        why=why,
    )


def _paths(document: JsonObject) -> Iterator[str]:
    """Host paths of nodes and mounts."""
    for edits in _edits(document):
        for node in _objects(edits, "deviceNodes"):
            yield str(node.get("hostPath") or node.get("path") or "")
        for mount in _objects(edits, "mounts"):
            yield str(mount.get("hostPath") or "")


def _edits(document: JsonObject) -> Iterator[JsonObject]:
    for owner in (document, *_objects(document, "devices")):
        edits = owner.get("containerEdits")
        if isinstance(edits, dict):
            yield edits


def _objects(owner: JsonObject, key: str) -> list[JsonObject]:
    value: JsonValue = owner.get(key)
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def _names(spec: SpecDocument) -> list[str]:
    return [str(device.get("name")) for device in _objects(spec.document or {}, "devices")]


def _twice(valid: list[SpecDocument]) -> Iterator[NodeFinding]:
    """Two specs of one folder: neither wins, and the device cannot be resolved."""
    for rank in (0, 1):
        specs = [spec for spec in valid if spec.rank == rank]
        counts = Counter(f"{_kind(spec)}={name}" for spec in specs for name in set(_names(spec)))
        twice = sorted(name for name, number in counts.items() if number > 1)
        if twice:
            kind = twice[0].partition("=")[0]
            paths = [spec.path for spec in specs if _kind(spec) == kind]
            yield finding(
                CdiDeviceTwice(
                    message=f"{counted(len(twice), 'CDI device')} in two specs of one folder:"
                    f" {listed(twice, 3)}",
                    remedy=f"rm {paths[-1]}",
                    devices=tuple(twice),
                    paths=tuple(paths),
                ),
                where=listed(paths, 3),
                why="runtimes refuse both: 'conflicting device', then 'unresolvable CDI devices'",
            )


def _missing_specs(valid: list[SpecDocument], inventory: Inventory | None) -> Iterator[NodeFinding]:
    ours = [spec for spec in valid if _kind(spec) == CDI_GPU_KIND]
    devices = [device for device in inventory.devices if not device.mig_enabled] if inventory else []
    names = {name for spec in ours for name in _names(spec)}
    lacking = [device.uuid for device in devices if device.uuid not in names]
    if not ours and devices:
        yield finding(
            CdiSpecMissing(
                message=f"no valid CDI spec of {CDI_GPU_KIND}",
                remedy=f"kubectl logs {AGENT_PODS} | grep -i cdi;"
                " its pod needs hostPath /var/run/cdi, writable (the chart mounts it with a CDI strategy)",
                kind=CDI_GPU_KIND,
            ),
            where="/var/run/cdi",
            why="the agent names devices by CDI, so every container that gets one stays in ContainerCreating",
        )
    elif ours and lacking:
        yield finding(
            CdiSpecIncomplete(
                message=f"the CDI spec lacks {counted(len(lacking), 'GPU')}: {listed(lacking, 2)}",
                remedy="tonnage cdi generate > /dev/null  (says what it leaves out, and why)",
                devices=tuple(lacking),
            ),
            where=ours[0].path,
            why="a container that gets it does not start",
        )
