"""Which families each target is given; what it expects before the text stands in front of every input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from fuzz.hostile import binary, documents, requests
from fuzz.node_files import PLACES as NODE_PLACES

Family = Callable[[int], Iterator[bytes]]
SIZES: Final = (30, 300, 1_000, 5_000, 20_000)
"""Parts of an input: from what is tried in a hurry, to what is by hand alone."""


def _after(family: Family, *prefix: int) -> Family:
    """The family's inputs behind these bytes."""
    return partial(_prefixed, bytes(prefix), family)


def _prefixed(prefix: bytes, family: Family, size: int) -> Iterator[bytes]:
    return (prefix + data for data in family(size))


def _bodies() -> tuple[Family, ...]:
    """Of some kinds, in each content type."""
    config_map, pod, deployment, definition, request, autoscaler = 0, 1, 4, 9, 14, 16
    texts = (documents.json_text, documents.objects)
    return (
        *(
            _after(family, place, 0)
            for place in (config_map, pod, deployment, definition)
            for family in texts
        ),
        _after(documents.yaml, config_map, 1),
        *(_after(binary.kubernetes_protobuf, place, 2) for place in (config_map, definition)),
        _after(binary.cbor, config_map, 3),
        *(_after(documents.json_text, place, 0) for place in (request, autoscaler)),
    )


def _node_files() -> tuple[Family, ...]:
    """Every file with words of every kind, and those of a format with that format's."""
    by_ending: dict[str, Family] = {
        ".json": documents.json_text,
        ".yaml": documents.yaml,
        ".toml": documents.toml,
        ".conf": documents.toml,
        "_state": documents.json_text,
        "_checkpoint": documents.json_text,
    }
    found = [_after(documents.words, number) for number in range(len(NODE_PLACES))]
    for number, place in enumerate(NODE_PLACES):
        found += [_after(family, number) for ending, family in by_ending.items() if place.endswith(ending)]
    return tuple(found)


_PAGE_ROW: Final = b'DCGM_FI_DEV_GPU_UTIL{UUID="'
"""Where a row of a page of device metrics goes on with what others write."""
_YAML: Final = (documents.yaml, documents.json_text)
_JSON: Final = (documents.json_text, documents.words)
_PATCHED: Final = tuple(_after(requests.object_patches, place) for place in (0, 1, 4))

HOSTILE: Final[Mapping[str, tuple[Family, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(
                    "device-plugin-config",
                    "scenario",
                    "hardware",
                    "lab",
                    "mig-parted",
                    "mig-hooks",
                    "changes",
                ),
                *("scheduler-config", "kubelet-config", "kubeconfig", "cdi-spec", "web-config"),
                "cluster-policy",
            ),
            _YAML,
        ),
        **dict.fromkeys(
            (
                *(
                    "config-map",
                    "agent-dump",
                    "config-kept-on-disk",
                    "health-kept-on-disk",
                    "usage-kept-on-disk",
                    "ledger-kept-on-disk",
                    *("claims-kept-on-disk", "claim-allocation"),
                    *("admission-review", "webhook-certificate"),
                    "kubelet-checkpoint",
                ),
                *("prometheus-answer", "web-login"),
                *("pull-secret", "registry-token", "driver-image-note"),
                *("exec-credential", "state-folder", "lab-output", "agent-memory", "checkpoint-file"),
                *("pretended-devices", "kubelet-memory", "kubelet-status", "webhook-answer", "annotations"),
            ),
            _JSON,
        ),
        **dict.fromkeys(("allocate", "prefer", "pod-resources", "plugin-messages"), (binary.protobuf,)),
        **dict.fromkeys(
            (
                "lab-command",
                "mig-minors",
                "process-table",
                "nvml",
                "change-flags",
                "messages",
                "address",
                "loader-cache",
            ),
            (documents.words,),
        ),
        "manifests": (*_YAML, documents.objects),
        "lab-manifest": (*_YAML, documents.objects),
        "redaction": (documents.words, documents.json_text, requests.scripts),
        "lab-names": (documents.words,),
        "explained-manifests": (*_YAML, documents.objects),
        **dict.fromkeys(("runtime-config", "runtime-change"), (documents.toml, documents.words)),
        "trace-machines": (documents.csv,),
        "trace-jobs": (documents.csv,),
        "exporter-counters": (documents.csv,),
        "pretended-load": (documents.words,),
        "device-page": (documents.words, _after(documents.words, *_PAGE_ROW)),
        "trace-packed": (documents.packed, documents.csv),
        "cluster-file": (*_YAML, documents.objects, documents.snapshot_lines, documents.packed),
        "cluster-file-packed": (documents.packed, documents.snapshot_lines),
        "api-answer": tuple(_after(family, 0) for family in (*_JSON, documents.objects)),
        "node-file": _node_files(),
        "spdy": (binary.spdy, documents.words),
        "spdy-session": (binary.spdy,),
        "websocket": (binary.messages, documents.words),
        "kubelet-query": (requests.query,),
        "watch-lines": (documents.words,),
        "agent-http": (binary.http, documents.words),
        "shell": (requests.scripts, documents.words),
        "archive": (binary.archives, documents.packed, documents.words),
        "trust-bundle": (documents.words,),
        "bearer-token": (requests.tokens,),
        "api-body": _bodies(),
        "api-headers": (requests.headers,),
        "api-json-patch": tuple(_after(requests.json_patches, place) for place in (0, 1)),
        "api-merge-patch": _PATCHED,
        "api-strategic-patch": _PATCHED,
        "api-last-applied": (*_JSON, documents.objects),
        "api-apply": (*_PATCHED, _after(documents.yaml, 0)),
        "api-label-selector": (_after(requests.label_selectors, 0),),
        "api-field-selector": tuple(_after(requests.field_selectors, place) for place in (0, 2)),
        "api-continue": (_after(documents.words, 0), _after(requests.tokens, 0)),
        "api-query": (_after(requests.query, 0),),
        "api-request": (requests.paths,),
        "api-rule": (requests.cel,),
    }
)


def hostile_for(name: str, size: int) -> Iterator[bytes]:
    """Every input of the target's families, each at about that many parts."""
    for family in HOSTILE[name]:
        yield from family(size)
