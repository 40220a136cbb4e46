"""Every function that reads bytes or texts which others wrote, found in the code itself.

A reader calls one of the readers of a format (JSON, YAML, TOML, CSV, protobuf, gzip, …), or is a public
function of `documents` that takes a text. What reads none but Tonnage's own has its reason in `OWN`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import tonnage

PACKAGE: Final = Path(tonnage.__file__).parent
_OF_FORMATS: Final = frozenset(
    {
        *("parsed_json", "decoded_json", "parse_json", "parse_document", "read_document"),
        *("parse_yaml", "parse_yaml_all", "read_yaml_all", "compose_all", "parsed_toml"),
        *("FromString", "ParseFromString", "DictReader", "decompressobj", "decompress", "GzipFile"),
        *("b64decode", "urlsafe_b64decode", "unpack_from", "iter_unpack", "from_dict", "load_der_x509_csr"),
    }
)
"""Names by which readers of formats are called, whatever stands before the last dot."""
_IN_MODULES: Final = frozenset(
    {
        *("json.loads", "json.decode", "json.Decoder", "tomllib.loads", "yaml.parse", "csv.reader"),
        *("struct.unpack", "tarfile.open", "zipfile.ZipFile", "gzip.open"),
    }
)
"""The same, of names that are others' as well."""
_TEXTS: Final = frozenset({"text", "content", "files"})
_GENERATED: Final = "_pb2.py"


def readers() -> Iterator[str]:
    """`module.py:function` of every reader, once."""
    seen: dict[str, None] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name.endswith(_GENERATED):
            continue
        module = path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in _functions(tree, ""):
            name, node = function
            if _calls(node) or (module.startswith("documents/") and _takes_text(name, node)):
                seen[f"{module}:{name}"] = None
    yield from seen


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(node: ast.AST, before: str) -> Iterator[tuple[str, Function]]:
    """Functions and methods; one within another is part of that."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{before}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{before}{child.name}.")


def _calls(function: Function) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            before = node.value.attr if isinstance(node.value, ast.Attribute) else ""
            before = node.value.id if isinstance(node.value, ast.Name) else before
            if node.attr in _OF_FORMATS or f"{before}.{node.attr}" in _IN_MODULES:
                return True
        elif isinstance(node, ast.Name) and node.id in _OF_FORMATS and isinstance(node.ctx, ast.Load):
            return True
    return False


def _takes_text(name: str, function: Function) -> bool:
    return not name.startswith("_") and "." not in name and bool(_TEXTS & {a.arg for a in function.args.args})


_PACKAGE: Final = "a file of the package"
_HERE: Final = "what this process itself has written or checked before"
_VALID: Final = "a field that the API server has validated"
_WORDS: Final = "no reader: the text is what it says"
OWN: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "model/catalog/gpu_operator.py:operator_releases",
            *("model/catalog/gpus.py:gpu_models", "model/catalog/messages.py:messages"),
            *(
                "model/catalog/metrics.py:device_fields",
                "model/catalog/mig.py:_table",
                "model/catalog/openb.py:published",
                "model/catalog/xid_messages.py:_messages",
                "model/catalog/xids.py:xids",
            ),
            *("twin/apiserver/bootstrap.py:_first_objects", "wire/schema/__init__.py:load_go_names"),
            *(
                "twin/apiserver/rbac/defaults.py:default_roles",
                "wire/schema/__init__.py:load_schema",
                "wire/schema/__init__.py:load_time_zones",
            ),
            "twin/apiserver/discovery/descriptions.py:Descriptions._published",
            *("twin/platform.py:_chart_objects", "twin/platform.py:_controller_objects"),
            "model/catalog/alerts.py:rule_table",
            *(
                "model/catalog/nvidia_kinds/__init__.py:nvidia_definition",
                "model/catalog/dashboards.py:dashboards",
            ),
        ),
        _PACKAGE,
    ),
    **dict.fromkeys(
        (
            *("adapters/snapshots/file.py:whole_file", "cli/cdi/generate.py:checked"),
            *(
                "decide/kubernetes/cel/function_library/host_functions.py:_carried_check",
                "twin/apiserver/object_store.py:Stored.object",
            ),
            "twin/controllers/pod_templates.py:kept_template",
            *("twin/kubelet/programs/file_commands.py:_pack", "cli/up/programs.py:_own_kubeconfig"),
            *(
                "twin/apiserver/storage/database.py:Database._objects",
                "agent/operands/follower.py:OperandFollower.restore",
            ),
        ),
        _HERE,
    ),
    **dict.fromkeys(
        (
            "twin/kubelet/containers/environment.py:EnvironmentReader._secret",
            "twin/kubelet/volumes/contents.py:VolumeSources._secret",
        ),
        _VALID,
    ),
    **dict.fromkeys(
        ("documents/pods/container_fields.py:field_fault", "documents/pods/placement.py:placement_fault"),
        _WORDS,
    ),
    "adapters/kubelet/folder_watch.py:_names": "what the kernel says of a folder",
    "adapters/vendors/nvml_child.py:main": "questions of the process that started this one",
    "adapters/gpu_service.py:_orders": "orders of the process that started this one",
    "adapters/measured_load.py:_Service.ask": "answers of a child that this process started",
    "adapters/vendors/nvml_process.py:Helper._read": "answers of a child that this process started",
    "adapters/kubernetes/transport.py:_file_of": "base64 alone, for OpenSSL, whose refusal is told",
    "cli/locations/kubectl.py:_extract": "an archive whose digest is locked",
    "adapters/snapshots/bundle.py:_Bundle.__init__": "an archive that is written",
}
"""Readers of Tonnage's own, each with its reason."""
BEHIND: Final[dict[str, str]] = {
    "adapters/kubelet/device_holders.py:KubeletFiles._answer": "pod-resources",
    "adapters/kubelet/plugin_folder.py:PluginFolder.register": "plugin-messages",
    "adapters/kubelet/claim_sockets.py:_name_at": "plugin-messages",
    "twin/kubelet/claims/device_health.py:_reported": "plugin-messages",
    "twin/kubelet/devices/plugins.py:PluginEndpoint._follow": "plugin-messages",
    "twin/kubelet/devices/plugins.py:ask_plugin": "plugin-messages",
    "twin/kubelet/devices/unix_grpc.py:unary_handler": "plugin-messages",
    "twin/machines.py:HardwareFile.read": "hardware",
    "twin/machines.py:HardwareFile.write": "hardware",
}
"""Readers that need a connection or a node, and the target that has what they read."""
