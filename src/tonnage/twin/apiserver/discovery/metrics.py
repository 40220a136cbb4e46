"""What the server counts of itself, as Prometheus reads it: requests, objects and checks.

The names and labels are a genuine server's, of whose metrics these are the ones that people look at first.

Source: k8s.io/apiserver pkg/endpoints/metrics, k8s.io/component-base metrics/prometheus/slis (v1.35).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.discovery import health
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.serving.exchange import Exchange
from tonnage.twin.apiserver.serving.parameters import address_of, flag_of
from tonnage.twin.apiserver.statuses import qualified

PATHS: Final = ("/metrics", "/metrics/slis")
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "LIST", "WATCH", "APPLY", "CONNECT"})
_ROOTS: Final = tuple(f"/{root}" for root in health.ROOTS)
_AGGREGATED: Final = ("/api", "/apis")
_STREAMS: Final = frozenset({"log", "exec", "portforward", "attach", "proxy"})
_UNROUTED: Final = (405, 415)
"""Codes of what leads to nothing that would count it."""
_LABELS: Final = (
    *("code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb"),
    "version",
)


class Metrics:
    """Counts requests while the server lives; the rest is looked up when somebody asks."""

    def __init__(self, store: ObjectStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._requests: Counter[tuple[str, ...]] = Counter()

    def count(self, exchange: Exchange) -> None:
        """Count a request that has been answered, if it led to something that was there to answer it."""
        labels = self._labels(exchange) if exchange.admitted else None
        if labels is not None:
            self._requests[str(exchange.code), *labels] += 1

    def _labels(self, exchange: Exchange) -> tuple[str, ...] | None:
        """What a request is counted as, but for its code; None: it is not counted."""
        dry_run, address = _dry_run(exchange), address_of(exchange.segments)
        if address is None:
            verb = _verb(exchange, "", "")
            if exchange.path in _ROOTS:
                return "", dry_run, "", "", "", exchange.path, verb, ""
            if exchange.path in _AGGREGATED and exchange.aggregates:
                return "apiserver", dry_run, "", "", "", exchange.path, verb, ""
            return None
        served, part = self._registry.find(*address.path), address.subresource
        strange = served is None or part not in ("", *served.subresources)
        if strange or (address.rest and part != "proxy") or exchange.code in _UNROUTED:
            return None
        group, version, plural = address.path
        named = address.name or exchange.method == "POST"
        scope = "resource" if named else "namespace" if address.namespace else "cluster"
        verb = _verb(exchange, scope, part, watched=address.watched)
        return "apiserver", dry_run, group, plural, scope, part, verb, version

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


def _verb(exchange: Exchange, scope: str, part: str, *, watched: bool = False) -> str:
    verb = "GET" if exchange.method == "HEAD" else exchange.method
    if part in _STREAMS:
        return "CONNECT"
    if watched or (verb == "GET" and flag_of(exchange.query, "watch")):
        return "WATCH"
    if verb == "GET" and scope in ("cluster", "namespace"):
        return "LIST"
    if verb == "PATCH" and exchange.headers.get("content-type") == PatchType.APPLY:
        return "APPLY"
    return verb if verb in _METHODS else "other"


def _dry_run(exchange: Exchange) -> str:
    values = {value for key, value in exchange.pairs if key == "dryRun"}
    return "invalid" if values - {"All"} else "".join(values)


def _checks() -> Iterable[str]:
    yield from _head("kubernetes_healthcheck", "gauge", "How the last check of each name ended.")
    checks = sorted((name, root) for root in health.ROOTS for name in health.checks(root))
    for check in checks:
        yield _sample("kubernetes_healthcheck", zip(("name", "type"), check, strict=True), 1)


def _head(name: str, type_: str, help_text: str) -> Iterable[str]:
    yield f"# HELP {name} {help_text}\n# TYPE {name} {type_}\n"


def _sample(name: str, labels: Iterable[tuple[str, str]], value: int) -> str:
    shown = ",".join(f'{label}="{label_value}"' for label, label_value in labels)
    return f"{name}{{{shown}}} {value}\n"
