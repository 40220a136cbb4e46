"""Just enough of an API server for one kubelet: in memory, with versions and watches."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import ChangeType, Listing, PatchType, WatchEvent
from tonnage.wire import kinds
from tonnage.wire.kinds import Kind

Body = dict[str, Any]


class Changed:
    """Something to wait on: `until` returns as soon as its condition holds."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self._event.wait()


class MemoryApi(Changed):
    """Just enough of an API server: versions, watches, status patches, graceful deletion of pods."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[tuple[str, str], Body]] = defaultdict(dict)
        self._history: dict[str, list[tuple[ChangeType, Body]]] = defaultdict(list)
        self._revision = 0
        self.down = False

    def pod(self, name: str, namespace: str = "default") -> Body:
        return self.objects["pods"].get((namespace, name), {})

    def node(self) -> Body:
        return next(iter(self.objects["nodes"].values()), {})

    def events(self, name: str) -> list[str]:
        return [
            f"{e['type']} {e['reason']} {e['message']} x{e['count']}"
            for e in self.objects["events"].values()
            if e["involvedObject"]["name"] == name
        ]

    def history(self, plural: str, name: str) -> list[Body]:
        """Every state that the object has had."""
        return [body for _, body in self._history[plural] if body["metadata"]["name"] == name]

    def put(self, kind: Kind[Any], body: Body) -> Body:
        key = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        self._revision += 1
        body = body | {"metadata": {**body["metadata"], "resourceVersion": str(self._revision)}}
        change = ChangeType.MODIFIED if key in self.objects[kind.plural] else ChangeType.ADDED
        self.objects[kind.plural][key] = body
        self._history[kind.plural].append((change, body))
        self.tell()
        return body

    def remove(self, kind: Kind[Any], name: str, namespace: str = "default") -> None:
        body = self.objects[kind.plural].pop((namespace, name))
        self._revision += 1
        body = body | {"metadata": {**body["metadata"], "resourceVersion": str(self._revision)}}
        self._history[kind.plural].append((ChangeType.DELETED, body))
        self.tell()

    async def get(self, kind: Kind[Any], name: str, namespace: str | None = None) -> Any:
        return self._typed(kind, self._find(kind, name, namespace))

    async def list(self, kind: Kind[Any], **selectors: Any) -> Listing[Any]:
        self._reach()
        bodies = [b for b in self.objects[kind.plural].values() if _selected(b, selectors)]
        return Listing([self._typed(kind, body) for body in bodies], str(len(self._history[kind.plural])))

    async def watch(
        self, kind: Kind[Any], *, resource_version: str, **selectors: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        history = self._history[kind.plural]
        at = min(int(resource_version), len(history))
        while True:
            while at < len(history):
                change, body = history[at]
                at += 1
                if _selected(body, selectors):
                    yield WatchEvent(change, self._typed(kind, body))
            await self._event.wait()

    async def dry_run_create(self, kind: Kind[Any], body: Any, *, namespace: str | None = None) -> Any:
        self._reach()
        return self._typed(kind, {**body})

    async def create(self, kind: Kind[Any], body: Any, *, namespace: str | None = None) -> Any:
        self._reach()
        plain: Body = dict(body)
        key = namespace or plain["metadata"].get("namespace", ""), plain["metadata"]["name"]
        if key in self.objects[kind.plural]:
            raise ApiError(409, "AlreadyExists", f'{kind.plural} "{key[1]}" already exists')
        plain["metadata"] = {"uid": f"uid-{self._revision}", **plain["metadata"], "namespace": key[0]}
        return self._typed(kind, self.put(kind, plain))

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> Any:
        del subresource
        body = self._find(kind, name, namespace)
        if patch.get("metadata", {}).get("uid", body["metadata"]["uid"]) != body["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "Precondition failed: UID in precondition")
        return self._typed(kind, self.put(kind, _merged(body, patch, patch_type is PatchType.STRATEGIC)))

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        *,
        namespace: str | None = None,
        grace_period_s: int | None = None,
        uid: str | None = None,
        **_: Any,
    ) -> None:
        body = self._find(kind, name, namespace)
        if uid is not None and uid != body["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "Precondition failed: UID in precondition")
        grace = 30 if grace_period_s is None else grace_period_s
        if kind is kinds.POD and grace and body["spec"].get("nodeName"):
            meta = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
            self.put(kind, body | {"metadata": {**body["metadata"], **meta}})
        else:
            self.remove(kind, name, namespace or "")

    def _find(self, kind: Kind[Any], name: str, namespace: str | None) -> Body:
        self._reach()
        body = self.objects[kind.plural].get((namespace or "", name))
        if body is None:
            raise ApiError(404, "NotFound", f'{kind.plural} "{name}" not found')
        return body

    def _reach(self) -> None:
        if self.down:
            raise ApiError(503, "ServiceUnavailable", "the server is down")

    def _typed(self, kind: Kind[Any], body: Body) -> Any:
        return msgspec.convert({**body, "apiVersion": kind.api_version, "kind": kind.kind}, kind.type)


def _selected(body: Body, selectors: Body) -> bool:
    parts = [part.partition("=") for part in selectors.get("field_selector", "").split(",") if part]
    return all(body["spec"].get(path.removeprefix("spec.")) == value for path, _, value in parts)


def _merged(old: Any, patch: Any, strategic: bool) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    result = dict(old)
    for key, value in patch.items():
        if value is None or key.startswith("$"):
            result.pop(key, None)
        elif strategic and key in {"conditions", "addresses"}:
            by_type = {item["type"]: item for item in old.get(key, [])}
            for item in value:
                if "$patch" in item:
                    by_type.pop(item["type"], None)
                    continue
                by_type[item["type"]] = _merged(by_type.get(item["type"], {}), item, strategic)
            result[key] = list(by_type.values())
        else:
            result[key] = _merged(old.get(key), value, strategic)
    return result
