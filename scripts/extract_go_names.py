"""Extract how parts of objects that refusals show are named in Go, and in what order.

Facts only: field names, their order and their types. Needs the table that `extract_schema.py` writes.

Source: pkg/apis/{core,flowcontrol,resource}/types.go of k8s.io/kubernetes, read from the module cache.

    python scripts/extract_go_names.py           # write src/tonnage/wire/schema/go_names.json
    python scripts/extract_go_names.py --check   # exit 1 if it is stale
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.go_types import DISCOVERY, module_folder
from tonnage.wire.schema import load_schema

TARGET: Final = Path(__file__).parents[1] / "src/tonnage/wire/schema/go_names.json"
ROOTS: Final = (
    "PodSpec",
    "PersistentVolumeSpec",
    "dra.AllocationResult",
    "dra.ResourceClaimSpec",
    "dra.ResourceClaimTemplateSpec",
    "apf.FlowSchemaSpec",
    "apf.PriorityLevelConfigurationSpec",
)
GROUPS: Final = {"": "core", "dra.": "resource", "apf.": "flowcontrol"}
"""Groups by what stands before the names of their structs, some of which the core has as well."""
_STRUCT: Final = re.compile(r"^type (\w+) struct \{$")
_ALIAS: Final = re.compile(r"^type (\w+) ([\w\[\].*]+)$")
_FIELD: Final = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)(?:\s+//.*)?$")
_MOVED: Final = ("PodSecurityContext", "PodSpec")
"""The type some of whose fields stand in another one's JSON."""
_RENAMED: Final = {
    "CephMonitors": "monitors", "DataDiskURI": "diskURI", "DiscoveryCHAPAuth": "chapAuthDiscovery",
    "EndpointsName": "endpoints", "RBDImage": "image", "RBDPool": "pool", "RadosUser": "user",
    "SessionCHAPAuth": "chapAuthSession",
}  # fmt: skip
_OTHER: Final = {
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
    "bool": False,
    "string": "",
    "types.UID": "",
}


def read(path: Path, prefix: str = "") -> tuple[dict[str, list[tuple[str, str]]], dict[str, str]]:
    """Structs with their fields (name, empty for an embedded one, and type), and aliases."""
    structs: dict[str, list[tuple[str, str]]] = {}
    aliases: dict[str, str] = {}
    inside = ""
    for line in path.read_text().splitlines():
        if inside:
            if line == "}":
                inside = ""
            elif found := _FIELD.match(line):
                structs[inside].append((found[1] or "", found[2]))
        elif found := _STRUCT.match(line):
            inside = prefix + found[1]
            structs[inside] = []
        elif found := _ALIAS.match(line):
            aliases[prefix + found[1]] = found[2]
    return structs, aliases


class Names:
    """Rows of the structs that are reached: [name in Go, in JSON, how it is held, what it is when unset]."""

    def __init__(self, structs: dict[str, list[tuple[str, str]]], aliases: dict[str, str]) -> None:
        self.found: dict[str, list[list[object]]] = {}
        self._structs = structs
        self._aliases = aliases
        self._types = load_schema().types

    def add(self, name: str) -> None:
        """Add a struct and all that it holds."""
        if name not in self.found:
            self.found[name] = []
            self.found[name] = self._rows(name, name)

    def _rows(self, name: str, owner: str) -> list[list[object]]:
        rows: list[list[object]] = []
        prefix = _prefix(owner)
        for field, go_type in self._structs[name]:
            if field:
                rows.append([field, self._json_name(owner, field), *self._held(go_type, prefix)])
            elif go_type == "metav1.ObjectMeta":
                rows.append(["", "metadata", "inline", ""])
            else:
                rows += self._rows(prefix + go_type, owner)
        return rows

    def _json_name(self, owner: str, field: str) -> str:
        if field in _RENAMED:
            return _RENAMED[field]
        owners = (owner, _MOVED[1]) if owner == _MOVED[0] else (owner,)
        known = [name for one in owners for name in self._types[_public(one)].fields]
        return next((name for name in known if name.lower() == field.lower()), field)

    def _held(self, go_type: str, prefix: str) -> tuple[str, object]:
        go_type = self._plain(go_type, prefix)
        for start, word in (("[]", "list"), ("*", "pointer")):
            if go_type.startswith(start):
                return word, self._reference(go_type.removeprefix(start), prefix)
        if go_type.startswith("map["):
            return "map", self._reference(go_type.partition("]")[2], prefix)
        if reference := self._reference(go_type, prefix):
            return "value", reference
        return "plain", _OTHER.get(go_type, 0 if go_type.startswith("int") else None)

    def _reference(self, go_type: str, prefix: str) -> str:
        name = go_type.removeprefix("core.") if go_type.startswith("core.") else prefix + go_type
        if name in self._structs:
            self.add(name)
            return name
        return ""

    def _plain(self, go_type: str, prefix: str) -> str:
        while prefix + go_type in self._aliases:
            go_type = self._aliases[prefix + go_type]
        return go_type


def _prefix(name: str) -> str:
    return name[: name.find(".") + 1]


def _public(name: str) -> str:
    """The type of the API that a struct is of."""
    prefix = _prefix(name)
    return f"{GROUPS[prefix]}/v1.{name.removeprefix(prefix)}"


def main() -> int:
    """Write the table, or compare it."""
    apis = module_folder(DISCOVERY) / "pkg/apis"
    structs: dict[str, list[tuple[str, str]]] = {}
    aliases: dict[str, str] = {}
    for prefix, group in GROUPS.items():
        more_structs, more_aliases = read(apis / group / "types.go", prefix)
        structs |= more_structs
        aliases |= more_aliases
    names = Names(structs, aliases)
    for root in ROOTS:
        names.add(root)
    lines = [f"{json.dumps(name)}:{json.dumps(names.found[name])}" for name in sorted(names.found)]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if "--check" in sys.argv:
        return int(text != TARGET.read_text())
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
