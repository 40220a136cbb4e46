"""Roles and bindings as they are printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tonnage.cli.options import Common
from tonnage.cli.terminal.output import emit, lines, say, yaml_text
from tonnage.model.json import JsonObject, JsonValue

RoleLines: TypeAlias = Callable[[JsonObject], Sequence[str]]


def show_objects(common: Common, objects: Sequence[JsonObject], of_role: RoleLines) -> None:
    """Print them for kubectl; `of_role` writes a ClusterRole."""
    if common.output == "json":
        emit(as_one(objects), "json")
        return
    for number, obj in enumerate(objects):
        if number:
            say("---")
        say(lines(yaml_lines(obj, of_role)))


def yaml_lines(obj: JsonObject, of_role: RoleLines) -> Sequence[str]:
    """A ClusterRole a rule to a line; what holds words of a person as YAML is written in full."""
    return of_role(obj) if obj["kind"] == "ClusterRole" else yaml_text(obj).rstrip().splitlines()


def as_one(objects: Sequence[JsonObject]) -> JsonValue:
    """The only object, a List of several, or null."""
    if len(objects) < 2:
        return objects[0] if objects else None
    return {"apiVersion": "v1", "kind": "List", "items": [*objects]}
