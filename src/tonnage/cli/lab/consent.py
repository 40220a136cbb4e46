"""What a lab changes, told before it runs on a cluster that Tonnage did not start; and the question."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tonnage.cli.locations.labs_and_scenarios import LabFolder, read_text
from tonnage.cli.terminal.output import lines, say
from tonnage.documents.lab.review import review
from tonnage.documents.lab.steps import LabStep
from tonnage.documents.yaml.reader import parse_yaml_all
from tonnage.model.errors import ConfigError, Problem

_MOST_OBJECTS: Final = 10


def agreed(lab_folder: LabFolder, cluster: str, *, yes: bool) -> bool:
    """Whether the lab may run on this cluster: it changes nothing there, or somebody said yes.

    Raises:
        ConfigError: there is nobody to ask.
    """
    changes = [*changes_of(lab_folder)]
    if not changes:
        return True
    head = f"Lab {lab_folder.lab.name} will change the cluster of {cluster}, as its user may:"
    say(lines([head, *(f"  {change}" for change in changes)]), err=True)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError(
            Problem(
                f"lab {lab_folder.lab.name} was not run",
                cluster,
                "Tonnage did not start this cluster, and without a terminal it cannot ask you",
                "read what the lab changes, then add --yes",
            )
        )
    return click.confirm("Run it there?", err=True)


def changes_of(lab_folder: LabFolder) -> Iterator[str]:
    """A line for each command that changes the cluster, and one for what is in each file that it applies."""
    for part, steps in (("step", lab_folder.lab.steps), ("clean-up", lab_folder.lab.cleanup)):
        for number, step in enumerate(steps, start=1):
            yield from _changes(f"{part} {number}", step, lab_folder.folder)


def _changes(place: str, step: LabStep, folder: Path) -> Iterator[str]:
    reviewed = review(step.command)
    if not reviewed.changes:
        return
    acting = f" (as user {step.user})" if step.user else ""
    yield f"{place}{acting}: {' '.join(step.run.replace(chr(92) + chr(10), ' ').split())}"
    for name in reviewed.files:
        yield f"  {name}: {', '.join(_objects(folder / name))}".removesuffix(": ")
    for name in reviewed.charts:
        yield f"  {name}: a chart"


def _objects(path: Path) -> list[str]:
    """`Pod vision/trainer` for each object of a manifest; none of a patch."""
    try:
        documents = [document.value for document in parse_yaml_all(read_text(path), source=str(path))]
    except ConfigError:
        return ["not a readable manifest"]
    objects = [name for document in documents for name in _items(document)]
    more = len(objects) - _MOST_OBJECTS
    return [*objects[:_MOST_OBJECTS], *([f"and {more} more"] if more > 0 else [])]


def _items(document: object) -> Iterator[str]:
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        for entry in items:
            yield from _items(entry)
        return
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    name = str(named.get("name") or named.get("generateName") or "")
    if "kind" in document and name:
        namespace = f"{named['namespace']}/" if named.get("namespace") else ""
        yield f"{document['kind']} {namespace}{name}"[:200]
