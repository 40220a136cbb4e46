"""A bug report about the operator: objects, Events and logs as one archive with an index, redacted.

Objects are kept by an allow-list, as in a snapshot. Logs have no fields: what looks like a secret is taken
out of them, and where names are to be replaced they are left out whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, Final, Protocol
from urllib.parse import quote

from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.snapshots.bundle_kinds import cluster_kinds, namespace_kinds
from tonnage.adapters.snapshots.capture import Order, Progress, capture
from tonnage.adapters.snapshots.kinds import CapturedKind
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.scrape_target import PART_OF
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.names import is_subdomain
from tonnage.model.redaction import REDACTED
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod

MOST_PODS: Final = 300
"""Of both namespaces together; those that are not ready come first."""
_LONGEST_LOG: Final = 256 * 1024
_MOST_LOGS: Final = 32 << 20
_OURS: Final = "=".join(PART_OF)
_IN_MEMORY: Final = 8 << 20
_SECRET: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\A(?:(?!-----BEGIN).)*-----END [A-Z ]*PRIVATE KEY-----"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|(?<=://)[^\s/@]{1,200}(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9+/=._~-]{12,}"
    r"|(?i:(?:passw(?:or)?d|token|secret|api[_-]?key|private[_-]?key|credential|authorization|\bauth\b)"
    r"[\w-]{0,20}(?:\\?[\"'])?\s{0,3}[=:]\s{0,3})"
    r"(?!(?i:bearer|basic)\b)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,;]+)"
    r"|(?i:--[\w-]{0,20}(?:password|token|secret|api-key))\s{1,3}[^\s-]\S*",
    re.DOTALL,
)
"""What looks like a credential: keys, tokens, the user in an address, and values of what is called so.

That is a field, whose quotes may be those of JSON within JSON, or a flag. A log may begin within a key.
"""
LEFT_OUT: Final = (
    "Secrets, data of ConfigMaps, values of environment variables, command lines, annotations and addresses"
)

_NO_LOGS: Final = "; logs, in which names cannot be replaced"


@dataclass(frozen=True, slots=True)
class BundleOrder:
    """What to gather, when and by whom."""

    level: Level
    at: datetime
    program: str
    operator_namespace: str
    agents_namespace: str
    log_lines: int = 500


@dataclass(slots=True)
class BundleIndex:
    """What the archive holds, and what could not be read."""

    files: list[JsonObject] = field(default_factory=list)
    missing: list[JsonObject] = field(default_factory=list)

    def lacks(self, subject: str, reason: str) -> None:
        """Note something that is not in the archive."""
        self.missing.append({"subject": subject, "reason": reason})


class _Writable(Protocol):
    def write(self, content: bytes, /) -> object: ...


async def gather(
    api: HttpKubernetes,
    order: BundleOrder,
    redactor: Redactor,
    archive: _Writable,
    progress: Progress,
) -> BundleIndex:
    """Write the archive, and return its index, which is its last file.

    What may not be read is named in the index. Raises ClusterError: the cluster is gone.
    """
    bundle = _Bundle(api, order, redactor, archive, progress)
    await bundle.capture("cluster.jsonl", cluster_kinds(), "")
    await bundle.capture("operator-namespace.jsonl", namespace_kinds(), order.operator_namespace)
    if order.agents_namespace != order.operator_namespace:
        await bundle.capture("agents-namespace.jsonl", namespace_kinds(), order.agents_namespace)
    await bundle.logs()
    return bundle.close()


def without_secrets(text: str) -> str:
    """A log without what looks like a secret.

    >>> without_secrets("pull https://me:pw@registry.example.com token=abc")
    'pull https://[redacted]@registry.example.com [redacted]'
    """
    return _SECRET.sub(REDACTED, text)


class _Bundle:
    """The archive while it is written."""

    def __init__(
        self,
        api: HttpKubernetes,
        order: BundleOrder,
        redactor: Redactor,
        archive: _Writable,
        progress: Progress,
    ) -> None:
        self._api = api
        self._order = order
        self._redactor = redactor
        self._progress = progress
        self._index = BundleIndex()
        sink: Any = archive  # a stream: nothing but write is asked of it
        self._tar = tarfile.open(mode="w|", fileobj=sink)  # noqa: SIM115
        self._logged = 0

    async def capture(self, path: str, kinds: tuple[CapturedKind, ...], namespace: str) -> None:
        """Objects of these kinds, of a namespace or of the cluster."""
        order = self._order
        captured_order = Order(
            order.level, order.at, order.program, namespace, kinds=kinds, needed=frozenset()
        )
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as lines:
            try:
                captured = await capture(
                    self._api, captured_order, self._redactor, lines.write, self._progress
                )
            except ApiError as error:
                self._index.lacks(path, error.reason)
                return
            for absence in captured.missing:
                self._index.lacks(f"{path}: {absence.kind}", absence.reason)
            counts: JsonObject = {kind: count.objects for kind, count in captured.counts.items()}
            self._add(path, lines, objects=counts)

    async def logs(self) -> None:
        """The ends of the logs of operands, controller and agents."""
        if self._order.level is Level.NAMES:
            return
        pods = [*await self._pods(self._order.agents_namespace, _OURS)]
        if self._order.operator_namespace != self._order.agents_namespace:
            pods += await self._pods(self._order.operator_namespace, "")
        pods.sort(key=_is_ready)
        if len(pods) > MOST_PODS:
            self._index.lacks(f"logs of {len(pods) - MOST_PODS} pods", f"of {MOST_PODS} pods at most")
        for number, pod in enumerate(pods[:MOST_PODS]):
            self._progress("logs", number, len(pods[:MOST_PODS]))
            for path, query in _logs_of(pod):
                if self._logged >= _MOST_LOGS:
                    self._index.lacks(path, f"logs of {_MOST_LOGS >> 20} MiB at most")
                else:
                    await self._log(path, query)

    async def _pods(self, namespace: str, selector: str) -> list[Pod]:
        try:
            return (await self._api.list(POD, namespace=namespace, label_selector=selector)).items
        except ApiError as error:
            self._index.lacks(f"logs of namespace {namespace}", error.reason)
            return []

    async def _log(self, path: str, query: str) -> None:
        limits = f"tailLines={self._order.log_lines}&limitBytes={_LONGEST_LOG}&timestamps=true"
        try:
            text = await self._api.get_text(f"{query}&{limits}", _LONGEST_LOG)
        except ApiError as error:
            self._index.lacks(path, error.reason)
            return
        content = without_secrets(text[:_LONGEST_LOG]).encode("utf-8", "replace")
        self._logged += len(content)
        self._add(path, io.BytesIO(content), truncated=len(text) >= _LONGEST_LOG)

    def _add(self, path: str, content: IO[bytes], **facts: JsonValue) -> None:
        content.seek(0)
        digest = hashlib.sha256()
        size = 0
        while piece := content.read(1 << 16):
            digest.update(piece)
            size += len(piece)
        content.seek(0)
        entry = tarfile.TarInfo(path)
        entry.size, entry.mtime, entry.mode = size, int(self._order.at.timestamp()), 0o600
        self._tar.addfile(entry, content)
        self._index.files.append({"path": path, "bytes": size, "sha256": digest.hexdigest(), **facts})

    def close(self) -> BundleIndex:
        """Write the index, and end the archive."""
        index = BundleIndex([*self._index.files], [*self._index.missing])
        text = json.dumps(index_json(index, self._order), indent=1)
        self._add("index.json", io.BytesIO(f"{text}\n".encode()))
        self._tar.close()
        return index


def index_json(index: BundleIndex, order: BundleOrder) -> JsonObject:
    """The index as it stands in the archive."""
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "OperatorBundle",
        "takenAt": timestamp(order.at),
        "program": order.program,
        "redact": order.level.value,
        "files": [*index.files],
        "missing": [*index.missing],
        "leftOut": LEFT_OUT + (_NO_LOGS if order.level is Level.NAMES else ""),
    }


def _is_ready(pod: Pod) -> bool:
    statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
    return pod.status.phase == "Running" and all(status.get("ready") for status in statuses)


def _logs_of(pod: Pod) -> Iterator[tuple[str, str]]:
    """(path in the archive, URL) of each log; of a container that was restarted the one before, too."""
    meta = pod.metadata
    statuses = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    restarted = {str(status.get("name")) for status in statuses if status.get("restartCount")}
    names = [container.name for container in (*pod.spec.init_containers, *pod.spec.containers)]
    if not all(map(is_subdomain, (meta.namespace, meta.name, *names))):
        return  # no server of Kubernetes has such names, and they become paths
    base = f"/api/v1/namespaces/{quote(meta.namespace)}/pods/{quote(meta.name)}/log"
    for name in names:
        query = f"{base}?container={quote(name)}"
        folder = f"logs/{meta.namespace}/{meta.name}"
        yield f"{folder}/{name}.log", query
        if name in restarted:
            yield f"{folder}/{name}.previous.log", f"{query}&previous=true"
