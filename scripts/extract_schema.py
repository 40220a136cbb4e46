"""Extract the facts about Kubernetes' built-in kinds that `tonnage.wire.schema` loads.

Facts only: field names, Go types, tags, markers, default values and discovery rows. No sentence is taken.

Source: the Go modules of MODULES at VERSION, read from the module cache (`go mod download` fetches them).

    python -m scripts.extract_schema           # write src/tonnage/wire/schema/schema.json
    python -m scripts.extract_schema --check   # exit 1 and show the difference if it is stale
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Final

from scripts.go_types import (
    DISCOVERY,
    GROUP_PACKAGES,
    MODULES,
    PACKAGES,
    Json,
    Package,
    Resolver,
    Row,
    module_folder,
    read_package,
)

TARGET: Final = Path(__file__).parents[1] / "src/tonnage/wire/schema/schema.json"
# Types that no discovery row names but requests and answers carry.
ALSO: Final = (
    *(
        "meta/v1." + name
        for name in ("Status", "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions")
    ),
    *(
        "meta/v1." + name
        for name in ("UpdateOptions", "PatchOptions", "TableOptions", "PartialObjectMetadata")
    ),
    *("meta/v1." + name for name in ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")),
    "apidiscovery/v2.APIGroupDiscoveryList",
    "admission/v1.AdmissionReview",
    "core/v1.SerializedReference",
    "core/v1.PodLogOptions",
    "core/v1.PodExecOptions",
    "core/v1.PodAttachOptions",
    "core/v1.PodPortForwardOptions",
)


def field_row(
    resolver: Resolver, package: Package, go: tuple[str, str, dict[str, str], list[tuple[str, str]]]
) -> Row:
    """The table's row of one field. Keys that say nothing are left out."""
    _, go_type, tags, markers = go
    name, *options = tags["json"].split(",")
    marks = dict(markers)
    pointer = go_type.startswith("*")
    row: Row = {"name": name, **resolver.describe(package, go_type)}
    omitted = "omitzero" in options or ("omitempty" in options and not is_struct(row, pointer))
    optional = "optional" in marks or "omitempty" in options or "k8s:optional" in marks
    number = int(tags["protobuf"].split(",")[1]) if "protobuf" in tags else 0
    extra: Row = {
        "required": "required" in marks or not optional,
        "pointer": pointer,
        "keep": not omitted,
        "list_type": marks.get("listType", marks.get("mapType", marks.get("structType", ""))),
        "map_keys": [value for key, value in markers if key == "listMapKey"],
        "patch_strategy": [word for word in tags.get("patchStrategy", "").split(",") if word],
        "merge_key": tags.get("patchMergeKey", ""),
        "number": number,
    }
    row.update({key: value for key, value in extra.items() if value})
    return {**row, "default": resolver.default(package, marks["default"])} if "default" in marks else row


def is_struct(row: Row, pointer: bool) -> bool:
    """Whether Go's `omitempty` has no effect: a struct by value."""
    structs = ("object", "time", "micro-time", "duration", "quantity", "int-or-string", "raw")
    return not pointer and row["type"] in structs


def type_row(resolver: Resolver, package: Package, name: str) -> Row:
    """Fields of a struct in Go's order, and the structs inlined into it with their protobuf numbers."""
    fields: list[Json] = []
    inline: list[Json] = []
    for go in package.structs[name]:
        tags = go[2]
        if "json" not in tags or tags["json"] == "-":
            continue
        if ",inline" in tags["json"]:
            number = int(tags["protobuf"].split(",")[1]) if "protobuf" in tags else 0
            inline.append(
                {"ref": resolver.locate(package, go[1].lstrip("*")), "number": number, "at": len(fields)}
            )
        else:
            fields.append(field_row(resolver, package, go))
    row: Row = {"fields": fields, "inline": inline} if inline else {"fields": fields}
    return {"atomic": True, **row} if name in package.atomic else row


def kind_rows(folder: Path, packages: dict[str, Package]) -> list[Row]:
    """Rows of the kinds served at the packages' groups and versions, with their subresources."""
    rows: dict[str, Row] = {}
    subresources: dict[str, list[Json]] = {}
    for path in sorted((folder / "api/discovery").glob("api*__*.json")):
        listing = json.loads(path.read_text())
        group, _, version = listing.get("groupVersion", "").rpartition("/")
        if f"{package_of(group)}/{version}" not in packages:
            continue
        for found in listing["resources"]:
            plural, _, subresource = found["name"].partition("/")
            place = subresources.setdefault(f"{group}/{version}/{plural}", [])
            if subresource:
                place.append(subresource_row(found, subresource, group, version))
            else:
                rows[f"{group}/{version}/{plural}"] = {
                    **kind_row(found, group, version),
                    "subresources": place,
                }
    return list(rows.values())


def package_of(group: str) -> str:
    """The package that holds an API group."""
    return GROUP_PACKAGES.get(group, group.split(".", maxsplit=1)[0])


def kind_row(found: dict[str, Json], group: str, version: str) -> Row:
    """One kind's row out of its discovery entry."""
    return {
        "group": group,
        "version": version,
        "kind": found["kind"],
        "plural": found["name"],
        "singular": found["singularName"],
        "short_names": found.get("shortNames", []),
        "categories": found.get("categories", []),
        "namespaced": found["namespaced"],
        "verbs": found["verbs"],
        "type": f"{package_of(group)}/{version}.{found['kind']}",
    }


def subresource_row(found: dict[str, Json], name: str, group: str, version: str) -> Row:
    """One subresource's row: the kind that it speaks may belong to another group."""
    other_group, other_version = str(found.get("group", group)), str(found.get("version", version))
    return {
        "name": name,
        "group": other_group,
        "version": other_version,
        "kind": found["kind"],
        "verbs": found["verbs"],
    }


def render(table: Row) -> str:
    """The table as JSON, one field, kind or subresource list a line, so that a new version diffs well."""
    lines = ["{", f'"source": {json.dumps(table["source"])},', '"kinds": [']
    kinds, types = table["kinds"], table["types"]
    assert isinstance(kinds, list)
    assert isinstance(types, dict)
    lines.append(",\n".join(json.dumps(kind, separators=(",", ":")) for kind in kinds))
    lines += ["],", '"types": {']
    chunks = []
    for name, row in types.items():
        assert isinstance(row, dict)
        parts = []
        for key, rows in row.items():
            if not isinstance(rows, list):
                parts.append(f'"{key}":{json.dumps(rows)}')
                continue
            body = ",\n".join(json.dumps(item, separators=(",", ":")) for item in rows)
            parts.append(f'"{key}":[\n{body}]' if rows else f'"{key}":[]')
        chunks.append(f"{json.dumps(name)}:{{" + ",".join(parts) + "}")
    lines += [",\n".join(chunks), "}", "}"]
    return "\n".join(lines) + "\n"


def reached_types(resolver: Resolver, roots: list[str]) -> Row:
    """Rows of the roots and of every type that they hold, by name."""
    rows: Row = {}
    todo = sorted(set(roots), reverse=True)
    while todo:
        full = todo.pop()
        if full in rows:
            continue
        home, name = full.rsplit(".", 1)
        row = type_row(resolver, resolver.packages[home], name)
        rows[full] = row
        held = [*list_of_rows(row, "fields"), *list_of_rows(row, "inline")]
        todo += [str(item["ref"]) for item in held if "ref" in item]
    return {name: rows[name] for name in sorted(rows)}


def list_of_rows(row: Row, key: str) -> list[Row]:
    """The rows under a key, none if it is missing."""
    found = row.get(key, [])
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def extract() -> str:
    """The whole table as text."""
    folders = {module: module_folder(module) for module in MODULES}
    packages = {
        name: read_package(name, folders[module] / folder) for name, (module, folder) in PACKAGES.items()
    }
    kinds = kind_rows(folders[DISCOVERY], packages)
    spoken = [
        f"{package_of(str(sub['group']))}/{sub['version']}.{sub['kind']}"
        for kind in kinds
        for sub in list_of_rows(kind, "subresources")
    ]
    types = reached_types(Resolver(packages), [*(str(kind["type"]) for kind in kinds), *spoken, *ALSO])
    source: Row = dict(MODULES)
    return render({"source": source, "kinds": list(kinds), "types": types})


def main() -> int:
    """Write the table, or with `--check` compare it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with the committed table")
    arguments = parser.parse_args()
    text = extract()
    if not arguments.check:
        TARGET.write_text(text)
        return 0
    committed = TARGET.read_text() if TARGET.exists() else ""
    difference = list(
        difflib.unified_diff(committed.splitlines(), text.splitlines(), "committed", "extracted", n=1)
    )
    print("\n".join(difference[:200]) or "schema.json is up to date")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
