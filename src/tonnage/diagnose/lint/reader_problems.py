"""What a reader of documents refuses, as findings at the places that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from pydantic import BaseModel

from tonnage.diagnose.lint.finding import Draft, RenameKey
from tonnage.diagnose.lint.manifest_objects import ManifestObject, at_path, mapping
from tonnage.documents.yaml.reader import Path, field_path
from tonnage.documents.yaml.source import unknown_fields
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.reasons.lint.configurations import GpuConfigInvalid, MigConfigInvalid

Invalid: TypeAlias = GpuConfigInvalid | MigConfigInvalid
PLACED: Final = re.compile(r":(\d+):(\d+)(?: (.*))?$")
"""How a problem ends that has a place: line, column, path."""


def refused(
    error: ConfigError, manifest: ManifestObject, model: type[BaseModel], kind: type[Invalid]
) -> Iterator[Draft]:
    """A finding for each problem of a whole document that was read as `model`."""
    located = manifest.sheet.documents[manifest.document]
    unknown = dict(unknown_fields(located, model))
    places = {field_path(path): path for path in located.marks}
    for problem in error.problems:
        yield _draft(problem, places, unknown, manifest, kind)


def _draft(
    problem: Problem,
    places: Mapping[str, Path],
    unknown: Mapping[Path, tuple[str, ...]],
    manifest: ManifestObject,
    kind: type[Invalid],
) -> Draft:
    """The problem at the path that it names, or else at the line that it says."""
    match = PLACED.search(problem.where)
    named = places.get(match[3] or "") if match is not None else None
    path = named if named is not None else ()
    at = (int(match[1]), int(match[2])) if match is not None and named is None else None
    change = None
    holder = mapping(at_path(manifest.value, path[:-1]))
    for field_name in unknown.get(path, ()):
        if field_name.lower() == str(path[-1]).replace("_", "-").lower() and field_name not in holder:
            change = RenameKey(path, field_name)
    on_key = path in unknown
    reason = kind(message=problem.what, remedy=problem.remedy)
    return Draft(reason, path, problem.why, change, on_key=on_key, at=at)
