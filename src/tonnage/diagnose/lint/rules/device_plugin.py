"""SHR-3, SHR-4, SHR-5: device-plugin configurations, files or in ConfigMaps, read as the agent reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, mapping, mappings
from tonnage.diagnose.lint.reader_problems import PLACED, refused
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.device_plugin.rules import MPS_ROOT_MISSING
from tonnage.documents.device_plugin.schema import DevicePluginConfig
from tonnage.documents.yaml.reader import Path
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonValue
from tonnage.model.reasons.lint.configurations import GpuConfigInvalid, MigConfigInvalid, SharingWithoutRename
from tonnage.model.severity import Severity

_SECTIONS: Final = frozenset({"flags", "resources", "sharing", "imex", "health"})
_MEANT: Final = (
    re.compile(r"^version:", re.MULTILINE),
    re.compile(r"^(flags|resources|sharing|imex|mig-configs):", re.MULTILINE),
)
_MIG: Final = re.compile(r"^mig-configs:", re.MULTILINE)


def is_config(value: JsonValue) -> bool:
    """Whether a document looks like a device-plugin configuration."""
    if not isinstance(value, dict) or "kind" in value or "mig-configs" in value:
        return False
    return "version" in value and bool({key.lower() for key in value} & _SECTIONS or len(value) == 1)


def holds_config(value: JsonValue) -> bool:
    """Whether it is a ConfigMap, or a patch of one, with a text that is meant to be such a configuration."""
    texts = (text for text in mapping(mapping(value).get("data")).values() if isinstance(text, str))
    return any(all(word.search(text) for word in _MEANT) for text in texts)


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Everything that the agent would refuse, and sharing that hides itself."""
    if manifest.kind in ("ConfigMap", ""):
        yield from _unreadable(manifest)
    if manifest.path or not is_config(manifest.value) or len(manifest.sheet.documents) > 1:
        return
    try:
        parse_device_plugin_config(manifest.sheet.text, source=manifest.sheet.name)
    except ConfigError as error:
        left = [problem for problem in error.problems if problem not in manifest.sheet.problems]
        for draft in refused(ConfigError(*left), manifest, DevicePluginConfig, GpuConfigInvalid):
            yield _from_chart(draft) if draft.reason.message == MPS_ROOT_MISSING else draft
    yield from _not_renamed(manifest)


def _from_chart(draft: Draft) -> Draft:
    """The folder of MPS comes from the chart most often: NVIDIA's always gives it."""
    message = "mpsRoot is missing: the configuration works where the chart's mps.root gives the folder"
    remedy = "NVIDIA's chart gives /run/nvidia/mps by default; of Tonnage's set mps.root"
    return replace(
        draft, reason=replace(draft.reason, message=message, remedy=remedy), severity=Severity.NOTE
    )


def _unreadable(manifest: ManifestObject) -> Iterator[Draft]:
    """A key of a ConfigMap that is meant to be such a configuration, and no YAML."""
    for key, text in mapping(manifest.value.get("data")).items():
        if not isinstance(text, str) or not all(word.search(text) for word in _MEANT):
            continue
        path: Path = (*manifest.path, "data", key)
        sheet = manifest.sheet.inner(manifest.document, path, text)
        kind = MigConfigInvalid if _MIG.search(text) else GpuConfigInvalid
        for problem in sheet.problems:
            match = PLACED.search(problem.where)
            if match is not None:
                at = sheet.in_file(int(match[1]), int(match[2]))
                reason = kind(message=problem.what, remedy=problem.remedy)
                yield Draft(reason, path, problem.why, at=at)


def _not_renamed(manifest: ManifestObject) -> Iterator[Draft]:
    sharing = mapping(manifest.value.get("sharing"))
    for kind in ("timeSlicing", "mps"):
        block = mapping(sharing.get(kind))
        if block.get("renameByDefault") is True:
            continue
        for index, entry in mappings(block.get("resources")):
            name = entry.get("name")
            if not isinstance(name, str) or entry.get("rename") or entry.get("replicas") in (None, 1):
                continue
            reason = SharingWithoutRename(
                message=f"{name[:100]} no longer means an exclusive device: it is shared under the same name",
                remedy="set renameByDefault: true, and let pods that may share request "
                f"{name[:100] if '/' in name else 'nvidia.com/' + name[:100]}.shared",
                strategy=kind,
                resource=name,
            )
            yield Draft(
                reason,
                ("sharing", kind, "resources", index, "name"),
                "a pod that needs a whole one cannot say so, and a quota does not tell them apart",
            )
