"""What container runtimes say of files that should be CDI specs: each by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tonnage.decide.node.cdi.folders import conflicts
from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.cdi.shape import normal_spec
from tonnage.decide.node.cdi.spec_warnings import spec_remarks
from tonnage.documents.node.cdi_spec import SpecText
from tonnage.model.devices.cdi import SpecFile, SpecVerdict
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue

_ENDINGS: Final = (".json", ".yaml")


def spec_verdicts(files: Iterable[SpecFile]) -> tuple[SpecVerdict, ...]:
    """Of each file all its problems; one that a runtime takes may still clash with another.

    Specs of folders that come later win. Contents are let go of one by one.
    """
    verdicts: list[SpecVerdict] = []
    valid: list[tuple[str, int, JsonObject]] = []
    ranks: dict[str, int] = {}
    for file in files:
        verdict, document = _judged(file)
        verdicts.append(verdict)
        rank = ranks.setdefault(file.folder, len(ranks))
        if document is not None:
            valid.append((file.path, rank, _names(document)))
    twice = conflicts(valid)
    return tuple(replace(entry, problems=(*entry.problems, *twice.get(entry.path, ()))) for entry in verdicts)


def _judged(file: SpecFile) -> tuple[SpecVerdict, JsonObject | None]:
    """By itself; the document of one that a runtime takes."""
    if file.left_out:
        return SpecVerdict(file.path, (_crowded(file),)), None
    if file.content is None:
        return SpecVerdict(file.path, file.problems, unreadable=file.named), None
    if not file.path.endswith(_ENDINGS):
        message, why = "the name of a CDI spec ends in .json or .yaml", "runtimes read no other files"
        return SpecVerdict(file.path, (Problem(message, file.path, why),)), None
    text = SpecText(file.content, file.path)
    if text.refusal:
        whys = (replace(fault, what=f"failed to parse CDI Spec: {fault.what}") for fault in text.refusal)
        return SpecVerdict(file.path, tuple(whys), _link(file)), None
    if text.value is None:
        problem = Problem("failed to parse CDI Spec, no Spec data", file.path)
        return SpecVerdict(file.path, (problem,), _link(file)), None
    problems, remarks = text.placed(spec_problems(text.value)), text.placed(spec_remarks(text.value))
    verdict = SpecVerdict(file.path, problems, (*_link(file), *remarks, *_further(text.further())))
    return verdict, None if problems else _normal(text.value)


def _normal(value: JsonValue) -> JsonObject | None:
    return normal_spec(value) if isinstance(value, dict) else None


def _names(document: JsonObject) -> JsonObject:
    """As much of a spec as tells whether it clashes with another."""
    devices = document.get("devices")
    named: list[JsonValue] = [
        {"name": device.get("name")}
        for device in (devices if isinstance(devices, list) else ())
        if isinstance(device, dict)
    ]
    return {"kind": document.get("kind"), "devices": named}


def _link(file: SpecFile) -> tuple[Problem, ...]:
    if not file.leads_to:
        return ()
    why, remedy = (
        f"it leads to {file.leads_to}",
        "put the file itself into the folder of specs",
    )
    return (Problem("the link leads out of the folders of CDI specs", file.path, why, remedy),)


def _further(where: str) -> tuple[Problem, ...]:
    if not where:
        return ()
    why = "runtimes read the first document of a file and ignore the others"
    return (Problem("more than one document", where, why, "put each into a file of its own"),)


def _crowded(folder: SpecFile) -> Problem:
    name = folder.path.rstrip("/").rpartition("/")[2]
    why = f"{folder.left_out} of them were not read, and each delays the start of every container"
    remedy = "find the program that writes them, and remove those that are not needed"
    return Problem(f"{name} has more, or larger, entries than a node can need", folder.path, why, remedy)
