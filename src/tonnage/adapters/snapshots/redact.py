"""Redaction: an object of the cluster as it may leave it. Pure; the same names get the same pseudonyms.

Fields are kept by the allow-list of `kinds`; everything else is left out. What is left out of a command line,
an environment variable or an annotation is also blotted out where a message quotes it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Final, cast

from tonnage.adapters.snapshots.component_messages import OWN_CONDITIONS, is_own
from tonnage.adapters.snapshots.field_rules import FieldMark, ObjectName, Rule
from tonnage.adapters.snapshots.fields import CONDITION
from tonnage.adapters.snapshots.kinds import CapturedKind
from tonnage.adapters.snapshots.nameless_phrases import nameless_phrases
from tonnage.adapters.snapshots.quoting import without_values
from tonnage.adapters.snapshots.secret_values import USERINFO, SecretValues, secret_values, texts_of
from tonnage.model.catalog.messages import known_phrases
from tonnage.model.json import JsonObject, JsonScalar, JsonValue
from tonnage.model.kubernetes.well_known import (
    BIND_COMPLETED,
    NAMESPACE_NAME,
    OLD_STORAGE_CLASS,
    SELECTED_NODE,
)
from tonnage.model.redaction import REDACTED
from tonnage.reading.nodes import is_hami_note
from tonnage.reading.workloads import REVISION
from tonnage.wire.kinds import NODE_GPU_STATUS

_KEPT_NAMES: Final = frozenset(
    ("default", "kube-system", "kube-public", "kube-node-lease", "tonnage-system", "default-scheduler",
     "system-cluster-critical", "system-node-critical", "kubernetes")
)  # fmt: skip
_KNOWN_DOMAINS: Final = (
    "kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "habana.ai", "intel.com", "tonnage.dev",
)  # fmt: skip
_TELLING: Final = ("nvidia.com", "amd.com", "habana.ai", "intel.com", "feature.node.kubernetes.io")
"""Domains of labels whose values speak of hardware, and decide where pods fit."""
_KEPT_LABELS: Final = frozenset(
    ("kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type")
)
_NAMING_LABELS: Final = {"kubernetes.io/hostname": "node", NAMESPACE_NAME: "namespace"}
_NOTES: Final = {
    REVISION: "",
    BIND_COMPLETED: "",
    SELECTED_NODE: "node",
    OLD_STORAGE_CLASS: "storageclass",
}
"""Annotations that decide an answer beside HAMi's, and what they name; empty: a number or `yes`."""
_YES: Final = "yes"
_PLAIN: Final = re.compile(r"-?[0-9]{1,9}|true|false|", re.IGNORECASE)
_DEVICE: Final = re.compile(r"\b(GPU|MIG)-[0-9A-Za-z][0-9A-Za-z-]{3,}")
_VARIABLES: Final = ("NVIDIA_", "CUDA_", "AMD_", "HABANA_", "ROCR_", "HIP_")
_IMAGE: Final = re.compile(r"(?P<name>.*?)(?::(?P<tag>[^:/@]*))?(?:@(?P<digest>.*))?", re.DOTALL)
_RESOURCE_OF_CLASS: Final = re.compile(
    r"(?P<before>(?:requests\.)?deviceclass\.resource\.kubernetes\.io/)(?P<device>.+)"
    r"|(?P<name>.+)(?P<after>\.(?P<kind>device|storage)class\.(?:resource|storage)\.k8s\.io/.+)"
    r"|(?P<namespace>[a-z0-9-]{1,63})/(?P<claim>[a-z0-9.-]{1,253})"
)
"""What DRA and quotas call the resources of a class; and a claim, whose namespace has no dot."""
_CONFIG_SOURCE: Final = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9.-]+)(?P<key>\[[\w.-]+\])")
_LATEST: Final = "latest"
"""The tag of an image that names none."""
_BOUND_VOLUMES: Final = (
    "persistentVolumeClaim", "ephemeral", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "iscsi",
    "rbd",
)  # fmt: skip
_LONGEST_WORDS: Final = 8192
_MARK_LENGTH: Final = 12
_MOST_KNOWN: Final = 100_000


Hide = Callable[[str], str]
"""Makes of a message what may be kept of it."""


class Level(StrEnum):
    """What is taken out. VALUES: whatever may hold a secret; NAMES: names of people's things too."""

    VALUES = "values"
    NAMES = "names"


class Redactor:
    """Redacts objects of one snapshot. `key` makes pseudonyms that nobody without it can guess."""

    def __init__(self, level: Level, key: bytes) -> None:
        self._names = level is Level.NAMES
        self._key = key
        self._replacements: dict[str, str] = {}
        self._marks: Mapping[FieldMark, Callable[[JsonValue, Hide], JsonValue]] = {
            FieldMark.SCALAR: lambda value, _: self._scalars(value),
            FieldMark.WHOLE: lambda value, _: self._whole(value),
            FieldMark.AMOUNTS: lambda value, _: {
                self._resource(name): amount for name, amount in _flat(value).items()
            },
            FieldMark.RESOURCE: lambda value, _: self._texts(value, self._resource),
            FieldMark.CONFIG_SOURCE: lambda value, _: self._texts(value, self._config_source),
            FieldMark.BY_POD: lambda value, _: {
                self._name("pod", name): at for name, at in _flat(value).items()
            },
            FieldMark.TEXT: self._text,
            FieldMark.LAST_WORDS: self._last_words,
            FieldMark.NOTES: lambda value, _: self._notes(value),
            FieldMark.LABELS: lambda value, _: self._labels(value),
            FieldMark.LABEL_KEY: lambda value, _: self._texts(value, self._label_key),
            FieldMark.KEYED: lambda value, _: self._keyed(value),
            FieldMark.NODE_FIELDS: lambda value, _: self._node_fields(value),
            FieldMark.IMAGE: lambda value, _: self._texts(value, self._image),
            FieldMark.VARIABLE: lambda value, _: self._texts(value, self._variable),
            FieldMark.OWNER: lambda value, _: self._owner(value),
            FieldMark.VOLUME: lambda value, _: self._volume(value),
        }

    def redacted(self, obj: JsonObject, kind: CapturedKind) -> JsonObject:
        """What may be kept of an object; the type first, then the metadata."""
        remaining = self._permitted(obj, kind.rules, self._hide(obj, kind))
        body = remaining if isinstance(remaining, dict) else {}
        metadata = {"metadata": body.pop("metadata", {})}
        return {"apiVersion": kind.api_version, "kind": kind.kind, **metadata, **body}

    def _hide(self, obj: JsonObject, kind: CapturedKind) -> Hide:
        """What takes an object's values out of its messages; what the file shows anyway is no secret."""
        if kind.kind == NODE_GPU_STATUS.kind:
            return _as_it_is  # the agent's own words

        @cache
        def secrets_and_words() -> tuple[SecretValues, frozenset[str]]:
            shown = None if self._names else self._permitted(obj, kind.rules, lambda _: "")
            shown_words = frozenset(texts_of(shown))
            return secret_values(obj, shown_words), shown_words

        return lambda text: text if is_own(text) else without_values(text, *secrets_and_words())

    def namespace(self, name: str) -> str:
        """A namespace as the snapshot calls it."""
        return self._name("namespace", name)

    def _permitted(self, value: JsonValue, rule: Rule, hide: Hide) -> JsonValue:
        """The part of a value that its rule keeps; None for nothing."""
        if rule is FieldMark.SCALAR and not self._names and not isinstance(value, dict | list):
            return value
        if isinstance(rule, FieldMark):
            if isinstance(value, list) and rule in (
                FieldMark.KEYED,
                FieldMark.NODE_FIELDS,
                FieldMark.OWNER,
                FieldMark.VOLUME,
            ):
                return _some(self._marks[rule](element, hide) for element in value)
            return self._marks[rule](value, hide)
        if isinstance(rule, ObjectName):
            return self._texts(value, lambda name: self._name(rule.prefix, name))
        if isinstance(value, list):
            return _some(self._permitted(element, rule, hide) for element in value)
        if not isinstance(value, dict):
            return None
        if rule is CONDITION and str(value.get("type")) in OWN_CONDITIONS:
            hide = _as_it_is
        fields: JsonObject = {}
        for key, inner in rule.items():  # a loop: this is most of the work of a capture
            if key in value and (part := self._permitted(value[key], inner, hide)) is not None:
                fields[key] = part
        return fields

    def _scalars(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return _some(self._scalars(element) for element in value if not isinstance(element, list))
        if isinstance(value, dict):
            return None
        return self._devices(value) if self._names and isinstance(value, str) else value

    def _whole(self, value: JsonValue) -> JsonValue:
        if not self._names:
            return value
        if isinstance(value, dict):
            return {self._devices(key): self._whole(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._whole(part) for part in value]
        return self._devices(value) if isinstance(value, str) else value

    def _texts(self, value: JsonValue, replace_text: Callable[[str], str]) -> JsonValue:
        """A text or a list of texts; anything else is nothing."""
        if isinstance(value, list):
            return _some(replace_text(element) for element in value if isinstance(element, str))
        return replace_text(value) if isinstance(value, str) else None

    def _text(self, value: JsonValue, hide: Hide) -> JsonValue:
        if self._names:
            return self._texts(value, lambda text: self._phrases(text, hide) or (text and REDACTED))
        return self._texts(value, hide)

    def _last_words(self, value: JsonValue, hide: Hide) -> JsonValue:
        return (self._phrases(value, hide) or None) if isinstance(value, str) else None

    def _phrases(self, text: str, hide: Hide) -> str:
        """What the catalogue of messages knows of a text."""
        phrases = nameless_phrases if self._names else known_phrases
        shown = "\n".join(dict.fromkeys(map(hide, phrases(text[-_LONGEST_WORDS:]))))
        return self._devices(shown) if self._names else shown

    def _labels(self, value: JsonValue) -> JsonObject:
        labels = {key: text for key, text in _flat(value).items() if isinstance(text, str)}
        if not self._names:
            return cast("JsonObject", labels)
        return {self._label_key(key): self._label_value(key, text) for key, text in labels.items()}

    def _notes(self, value: JsonValue) -> JsonValue:
        notes = _flat(value)
        annotations: JsonObject = {
            key: self._name(_NOTES[key], text)
            for key, text in notes.items()
            if key in _NOTES
            and isinstance(text, str)
            and (_NOTES[key] or _PLAIN.fullmatch(text) or text == _YES)
        }
        if not self._names:
            annotations.update({key: text for key, text in notes.items() if is_hami_note(key)})
        return annotations or None

    def _keyed(self, value: JsonValue) -> JsonValue:
        fields = cast("JsonObject", _flat(value))
        listed = value.get("values") if isinstance(value, dict) else None
        key = str(fields.get("key", ""))
        if isinstance(fields.get("value"), str) and self._names:
            fields["value"] = self._label_value(key, str(fields["value"]))
        if isinstance(listed, list):
            texts = [text for text in listed if isinstance(text, str)]
            fields["values"] = [self._label_value(key, text) if self._names else text for text in texts]
        if "key" in fields and self._names:
            fields["key"] = self._label_key(key)
        names = ("key", "operator", "value", "values", "effect", "tolerationSeconds", "timeAdded")
        return {name: fields[name] for name in names if name in fields}

    def _node_fields(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict):
            return None
        fields: JsonObject = {
            name: value[name] for name in ("key", "operator") if isinstance(value.get(name), str)
        }
        return {
            **fields,
            "values": self._texts(value.get("values"), lambda name: self._name("node", name)) or [],
        }

    def _owner(self, value: JsonValue) -> JsonValue:
        owner = cast("JsonObject", _flat(value))
        name, kind = owner.get("name"), owner.get("kind")
        if isinstance(name, str) and isinstance(kind, str):
            owner["name"] = self._name(kind.lower(), name)
        keys = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
        return {key: owner[key] for key in keys if key in owner}

    def _volume(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict):
            return None
        sources: JsonObject = {key: {} for key in _BOUND_VOLUMES if key in value}
        claim = value.get("persistentVolumeClaim")
        if isinstance(claim, dict) and isinstance(claim.get("claimName"), str):
            named = self._name("persistentvolumeclaim", str(claim["claimName"]))
            sources["persistentVolumeClaim"] = {"claimName": named}
        name = value.get("name")
        return (
            {"name": self._name("volume", name if isinstance(name, str) else ""), **sources}
            if sources
            else None
        )

    def _name(self, prefix: str, name: str) -> str:
        if not self._names or name in _KEPT_NAMES or not name:
            return name
        return f"{prefix}-{self._mark(name)}" if prefix else name

    def _resource(self, name: str) -> str:
        match = _RESOURCE_OF_CLASS.fullmatch(name) if self._names else None
        if match is None:
            return name
        if match["claim"]:
            return f"{self.namespace(match['namespace'])}/{self._name('resourceclaim', match['claim'])}"
        group = "device" if match["device"] or match["kind"] == "device" else "storage"
        renamed = self._name(f"{group}class", match["device"] or match["name"])
        return f"{match['before'] or ''}{renamed}{match['after'] or ''}"

    def _config_source(self, source: str) -> str:
        match = _CONFIG_SOURCE.fullmatch(source)
        if not self._names or match is None:
            return REDACTED if self._names and source else source
        namespace, config_map = self.namespace(match["namespace"]), self._name("configmap", match["name"])
        return f"{namespace}/{config_map}{match['key']}"

    def _label_key(self, key: str) -> str:
        domain, slash, _ = key.partition("/")
        if not self._names or (slash and _within(domain, _KNOWN_DOMAINS)) or key == "metadata.name":
            return key
        return f"label-{self._mark(key)}"

    def _label_value(self, key: str, value: str) -> str:
        domain, slash, _ = key.partition("/")
        if key in _NAMING_LABELS:
            return self._name(_NAMING_LABELS[key], value)
        if _PLAIN.fullmatch(value) or key in _KEPT_LABELS or (slash and _within(domain, _TELLING)):
            return self._devices(value)
        return f"value-{self._mark(value)}"

    def _image(self, image: str) -> str:
        match = _IMAGE.fullmatch(image)
        if not self._names or match is None or not match["name"]:
            return USERINFO.sub(lambda user_match: user_match[0].replace(user_match["user"], REDACTED), image)
        tag, digest = match["tag"], match["digest"]
        tagged = f":{tag if tag == _LATEST else self._mark(tag)}" if tag else ""
        return f"image-{self._mark(match['name'])}{tagged}{f'@{self._mark(digest)}' if digest else ''}"

    def _variable(self, name: str) -> str:
        return name if not self._names or name.startswith(_VARIABLES) else f"VARIABLE_{self._mark(name)}"

    def _devices(self, text: str) -> str:
        """The text with uuids of devices replaced."""
        return _DEVICE.sub(lambda match: f"{match[1]}-{self._mark(match[0])}", text)

    def _mark(self, text: str) -> str:
        mark = self._replacements.get(text)
        if mark is None:
            if len(self._replacements) >= _MOST_KNOWN:
                self._replacements.clear()
            encoded = text.encode("utf-8", "surrogatepass")
            mark = hmac.new(self._key, encoded, hashlib.sha256).hexdigest()[:_MARK_LENGTH]
            self._replacements[text] = mark
        return mark


def _as_it_is(text: str) -> str:
    return text


def _within(domain: str, domains: Iterable[str]) -> bool:
    return any(domain == candidate or domain.endswith(f".{candidate}") for candidate in domains)


def _flat(value: JsonValue) -> dict[str, JsonScalar]:
    if not isinstance(value, dict):
        return {}
    return {k: part for k, part in value.items() if part is not None and not isinstance(part, dict | list)}


def _some(parts: Iterable[JsonValue]) -> JsonValue:
    return [part for part in parts if part is not None]
