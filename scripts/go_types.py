"""Reads the types that Kubernetes' Go sources declare, and gives them the words of the table of kinds."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

Json: TypeAlias = str | int | float | bool | list["Json"] | dict[str, "Json"] | None
Row: TypeAlias = dict[str, Json]

VERSION: Final = "0.35.8"
API: Final = "k8s.io/api"
MACHINERY: Final = "k8s.io/apimachinery"
EXTENSIONS: Final = "k8s.io/apiextensions-apiserver"
AGGREGATOR: Final = "k8s.io/kube-aggregator"
DISCOVERY: Final = "k8s.io/kubernetes"  # api/discovery: plural and short names, verbs, subresources
MODULES: Final = {
    API: VERSION,
    MACHINERY: VERSION,
    EXTENSIONS: VERSION,
    AGGREGATOR: VERSION,
    DISCOVERY: "1" + VERSION[1:],
}

# Package (as it is named in the table) -> module, folder. A field's foreign type `corev1.Pod` is resolved by
# the import lines of its own file.
PACKAGES: Final = {
    "meta/v1": (MACHINERY, "pkg/apis/meta/v1"),
    "core/v1": (API, "core/v1"),
    "apps/v1": (API, "apps/v1"),
    "batch/v1": (API, "batch/v1"),
    "policy/v1": (API, "policy/v1"),
    "rbac/v1": (API, "rbac/v1"),
    "scheduling/v1": (API, "scheduling/v1"),
    "storage/v1": (API, "storage/v1"),
    "networking/v1": (API, "networking/v1"),
    "node/v1": (API, "node/v1"),
    "coordination/v1": (API, "coordination/v1"),
    "certificates/v1": (API, "certificates/v1"),
    "flowcontrol/v1": (API, "flowcontrol/v1"),
    "admission/v1": (API, "admission/v1"),
    "admissionregistration/v1": (API, "admissionregistration/v1"),
    "autoscaling/v1": (API, "autoscaling/v1"),
    "autoscaling/v2": (API, "autoscaling/v2"),
    "authentication/v1": (API, "authentication/v1"),
    "authorization/v1": (API, "authorization/v1"),
    "events/v1": (API, "events/v1"),
    "discovery/v1": (API, "discovery/v1"),
    "resource/v1": (API, "resource/v1"),
    "apidiscovery/v2": (API, "apidiscovery/v2"),
    "apiextensions/v1": (EXTENSIONS, "pkg/apis/apiextensions/v1"),
    "apiregistration/v1": (AGGREGATOR, "pkg/apis/apiregistration/v1"),
}
# API group -> package, where the group's first word is not the package's name.
GROUP_PACKAGES: Final = {"": "core", "rbac.authorization.k8s.io": "rbac"}

SCALARS: Final = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "uint8": "int32",
    "uint32": "int64",
    "float64": "float64",
    "[]byte": "bytes",
    "types.UID": "string",
    "types.NodeName": "string",
    "intstr.IntOrString": "int-or-string",
    "resource.Quantity": "quantity",
    "runtime.RawExtension": "raw",
    "runtime.Object": "raw",
}
SAID_OTHERWISE: Final = ("int", "uint8", "uint32", "types.UID", "types.NodeName", "runtime.RawExtension")
GO_NAMES: Final = {"quantity": "resource.Quantity", "bytes": "[]uint8"}
# Types of these packages whose JSON is not that of their Go struct.
SPECIAL: Final = {
    "meta/v1.Time": "time",
    "meta/v1.MicroTime": "micro-time",
    "meta/v1.Duration": "duration",
    "meta/v1.FieldsV1": "raw",
    "apiextensions/v1.JSON": "raw",
    "apiextensions/v1.JSONSchemaPropsOrArray": "schema-or-array",
    "apiextensions/v1.JSONSchemaPropsOrBool": "schema-or-bool",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "schema-or-strings",
}

_DECLARATION: Final = re.compile(r"^type (\w+) (.+?)\s*(\{?)$")
_CONSTANT: Final = re.compile(
    r'^\s*(?:const )?(\w+)(?:\s+([\w.]+))?\s*=\s*(?:([\w.]+)\()?("[^"]*"|[\w.]*[A-Z]\w*)\)?\s*(?://.*)?$'
)
_FIELD: Final = re.compile(r"^\s*(?:(\w+)\s+)?(\S+)\s+`([^`]*)`")
_IMPORT: Final = re.compile(r'^\s*(?:import )?(?:(\w+)\s+)?"((?:k8s\.io|sigs\.k8s\.io)/[^"]+)"')
_TAG: Final = re.compile(r'(\w+):"([^"]*)"')
_MARKER: Final = re.compile(r"^\s*//\s*\+([\w:]+)(?:=(.*))?$")


@dataclass
class Package:
    """What the `types*.go` files of one package declare."""

    name: str
    structs: dict[str, list[tuple[str, str, dict[str, str], list[tuple[str, str]]]]] = field(
        default_factory=dict
    )
    aliases: dict[str, str] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)
    atomic: set[str] = field(default_factory=set)
    constants: dict[str, tuple[str, str]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


def module_folder(module: str) -> Path:
    """The module's folder in the Go module cache, downloaded if need be."""
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            ["go", "mod", "download", "-json", f"{module}@v{MODULES[module]}"],
            check=True, capture_output=True, text=True, cwd=folder,
        )  # fmt: skip
    return Path(json.loads(answer.stdout)["Dir"])


def read_package(name: str, folder: Path) -> Package:
    """Structs, aliases, enums and constants of a package."""
    package = Package(name)
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("zz_", "generated")):
            continue
        read_file(package, path.read_text().splitlines())
    return package


def read_file(package: Package, lines: list[str]) -> None:
    """Add one file's declarations to the package."""
    markers: list[tuple[str, str]] = []
    struct: str | None = None
    for line in lines:
        if not line.strip():
            markers = []
        elif marker := _MARKER.match(line):
            markers.append((marker[1], (marker[2] or "").strip()))
        elif line.lstrip().startswith("//"):
            continue
        else:
            struct = read_declaration(package, line, struct, markers)
            markers = []


def read_declaration(
    package: Package, line: str, struct: str | None, markers: list[tuple[str, str]]
) -> str | None:
    """Take in one line of code; returns the struct that the next line is in."""
    if struct is not None:
        if line.startswith("}"):
            return None
        if (found := _FIELD.match(line)) is not None:
            package.structs[struct].append((found[1] or "", found[2], dict(_TAG.findall(found[3])), markers))
        return struct
    if (imported := _IMPORT.match(line)) is not None:
        package.imports[imported[1] or imported[2].rsplit("/", 1)[-1]] = imported[2]
    elif (declared := _DECLARATION.match(line)) is not None:
        name, body = declared[1], declared[2].removeprefix("= ")
        if ("structType", "atomic") in markers or ("mapType", "atomic") in markers:
            package.atomic.add(name)
        if body.startswith("struct"):
            package.structs[name] = []
            return None if body.endswith("}") else name
        package.aliases[name] = body
        if ("enum", "") in markers:
            package.enums.add(name)
    elif (constant := _CONSTANT.match(line)) is not None:
        package.constants[constant[1]] = (constant[2] or constant[3] or "", constant[4])
    return None


class Resolver:
    """Turns Go types into the table's words, across packages."""

    def __init__(self, packages: dict[str, Package]) -> None:
        self.packages = packages
        self.folders = {f"{module}/{folder}": name for name, (module, folder) in PACKAGES.items()}

    def locate(self, package: Package, go_type: str) -> str:
        """`package.Type` of a Go type name as it stands in a file of `package`."""
        if "." not in go_type:
            return f"{package.name}.{go_type}"
        alias, name = go_type.split(".")
        path = package.imports.get(alias, alias)
        return f"{self.folders[path]}.{name}" if path in self.folders else f"{path.rsplit('/', 1)[-1]}.{name}"

    def describe(self, package: Package, go_type: str) -> Row:
        """`type`, and `item` or `ref` where there are such, of a Go type."""
        if go_type.startswith("*"):
            return self.describe(package, go_type[1:])
        if go_type in SCALARS:
            word = SCALARS[go_type]
            return {"type": word, "go": go_type} if go_type in SAID_OTHERWISE else {"type": word}
        if go_type.startswith("[]"):
            return self.holder("array", package, "[]", go_type[2:])
        if go_type.startswith("map["):
            key, item = go_type[4:].split("]", 1)
            named = key if key == "string" else self.locate(package, key).rsplit("/", 1)[-1]
            return self.holder("map", package, f"map[{named}]", item)
        full = self.locate(package, go_type)
        if full in SCALARS:
            return {"type": SCALARS[full]}
        if full in SPECIAL:
            word = SPECIAL[full]
            return {"type": word, "go": full.rpartition("/")[2]} if word == "raw" else {"type": word}
        home, name = full.rsplit(".", 1)
        declared = self.packages[home]
        if name in declared.structs:
            return {"type": "object", "ref": full}
        described = self.describe(declared, declared.aliases[name])
        if name in declared.enums:
            values = [value for kind, value in declared.constants.values() if kind == name]
            described["enum"] = [*sorted({str(self.value(declared, one)) for one in values})]
        return {**described, "go": f"{home.rsplit('/', 1)[-1]}.{name}"}

    def holder(self, word: str, package: Package, prefix: str, go_item: str) -> Row:
        """An array or a map of `go_item`; an array inside it is written `array:string`."""
        item = self.describe(package, go_item)
        inner = f"{item['type']}:{item['item']}" if "item" in item else item["type"]
        row: Row = {"type": word, "item": inner}
        if "ref" in item:
            row["ref"] = item["ref"]
        if "enum" in item:
            row["enum"] = item["enum"]
        if "go" in item or prefix not in ("[]", "map[string]"):
            row["go"] = prefix + str(item.get("go", GO_NAMES.get(str(inner), inner)))
        return row

    def value(self, package: Package, text: str) -> Json:
        """The value of a constant: a literal, or what another constant is."""
        if text.startswith('"'):
            return str(json.loads(text))
        alias, _, name = text.rpartition(".")
        home = self.packages[self.locate(package, text).rsplit(".", 1)[0]] if alias else package
        return self.value(home, home.constants[name][1])

    def default(self, package: Package, text: str) -> Json:
        """Value of a `+default=` marker: JSON, or `ref(Constant)`."""
        if text.startswith("ref("):
            constant = text[4:-1].rsplit(".", 1)[-1]
            return self.value(package, package.constants[constant][1])
        value: Json = json.loads(text)
        return value
