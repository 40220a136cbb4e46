"""What the server counts of itself, as Prometheus reads it: requests, objects and checks.

The names and labels are a genuine server's, of whose metrics these are the ones that people look at first.

Source: k8s.io/apiserver pkg/endpoints/metrics, k8s.io/component-base metrics/prometheus/slis (v1.35).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tonnage.twin.apiserver import health
from tonnage.twin.apiserver.exchange import Exchange
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.statuses import qualified
from tonnage.twin.apiserver.store import Store

PATHS: Final = ("/metrics", "/metrics/slis")
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_VERBS: Final = {"create": "POST", "update": "PUT"}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_ROOTS: Final = frozenset({"api", "apis", "openapi", "version", "metrics", *health.ROOTS})
_LABELS: Final = (
    *("code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb"),
    "version",
)


class Metrics:
    """Counts requests while the server lives; the rest is looked up when somebody asks."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._requests: Counter[tuple[str, ...]] = Counter()

    def count(self, exchange: Exchange, asked: Attributes, version: str) -> None:
        """Count a request that has been answered."""
        code, dry_run = str(exchange.code), exchange.query.get("dryRun", "")
        served = self._registry.find(asked.group, version, asked.resource) if asked.of_resource else None
        if served is None:
            root = exchange.segments[0]
            verb = exchange.method if exchange.method in _METHODS else "other"
            self._requests[code, "", "", "", "", "", f"/{root}" if root in _ROOTS else "", verb, ""] += 1
            return
        scope = "resource" if asked.name else "namespace" if asked.namespace else "cluster"
        part = asked.subresource if asked.subresource in served.subresources else ""
        verb = _VERBS.get(asked.verb, asked.verb.upper())
        labels = (asked.group, asked.resource, scope, part, verb, version)
        self._requests[code, "apiserver", "All" if dry_run == "All" else "", *labels] += 1

    async def answer(self, exchange: Exchange) -> None:
        """Answer one of the paths; DELETE begins to count anew."""
        if exchange.path == PATHS[1]:
            text = "".join(_checks())
        elif exchange.method == "DELETE":
            self._requests.clear()
            text = "metrics reset\n"
        else:
            text = "".join(self._lines())
        await exchange.answer_bytes(text.encode(), content_type=_TYPE)

    def _lines(self) -> Iterable[str]:
        yield from _head("apiserver_request_total", "counter", "Requests that were answered.")
        for values, count in sorted(self._requests.items()):
            yield _sample("apiserver_request_total", zip(_LABELS, values, strict=True), count)
        yield from _head("apiserver_storage_objects", "gauge", "Objects that are kept, by resource.")
        for resource in sorted(self._store.resources(), key=qualified):
            count = len(self._store.list(resource))
            yield _sample("apiserver_storage_objects", [("resource", qualified(resource))], count)


def _checks() -> Iterable[str]:
    yield from _head("kubernetes_healthcheck", "gauge", "How the last check of each name ended.")
    checks = sorted((name, root) for root in health.ROOTS for name in health.checks(root))
    for check in checks:
        yield _sample("kubernetes_healthcheck", zip(("name", "type"), check, strict=True), 1)


def _head(name: str, type_: str, told: str) -> Iterable[str]:
    yield f"# HELP {name} {told}\n# TYPE {name} {type_}\n"


def _sample(name: str, labels: Iterable[tuple[str, str]], value: int) -> str:
    shown = ",".join(f'{label}="{said}"' for label, said in labels)
    return f"{name}{{{shown}}} {value}\n"
