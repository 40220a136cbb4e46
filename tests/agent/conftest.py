"""A node's surroundings for the agent's loops: a small API server in memory, and time that flies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import ChangeType, Listing, PatchType, WatchEvent
from tonnage.wire.kinds import CONFIG_MAP, EVENT, NODE, NODE_GPU_STATUS, POD, Kind

PATIENCE_S = 60.0


class FastClock:
    """Time that passes so many times as fast."""

    def __init__(self, speed: float = 20) -> None:
        self._speed = speed

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


class Cluster:
    """A KubernetesApi in memory, as far as the agent uses one. `changed` is set after every write."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], JsonObject] = {}
        self.watchers: list[tuple[str, str, asyncio.Queue[tuple[ChangeType, JsonObject]]]] = []
        self.version = 0
        self.reachable = True
        self.forbidden: set[str] = set()
        """Kinds, in the plural, that may not be listed or watched."""
        self.changed = asyncio.Event()
        self.server_ahead_s = 0.0

    def put(self, kind: Kind[Any], name: str, namespace: str = "", /, **content: Any) -> None:
        """Write an object, as somebody else does."""
        self.version += 1
        key = (kind.plural, namespace, name)
        old = self.objects.get(key, {})
        before: Any = old.get("metadata", {})
        meta = {**before, "name": name, "namespace": namespace, **content.pop("metadata", {})}
        meta["resourceVersion"] = str(self.version)
        obj: JsonObject = {**old, **content, "metadata": meta}
        self.objects[key] = obj
        self._tell(kind.plural, name, ChangeType.MODIFIED if old else ChangeType.ADDED, obj)

    def remove(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        obj = self.objects.pop((kind.plural, namespace, name))
        self._tell(kind.plural, name, ChangeType.DELETED, obj)

    def label(self, node: str, value: str | None) -> None:
        labels: dict[str, str] = {} if value is None else {"nvidia.com/device-plugin.config": value}
        self.put(NODE, node, metadata={"labels": labels})

    def configs(self, **data: str) -> None:
        self.put(CONFIG_MAP, "device-plugin-config", "tonnage-system", data=dict(data))

    def events(self) -> list[tuple[str, str]]:
        """(reason, message) of every Event."""
        return [
            (str(o["reason"]), str(o["message"])) for k, o in self.objects.items() if k[0] == EVENT.plural
        ]

    def status(self, node: str) -> Any:
        """The node's published status, empty if there is none."""
        return self.objects.get((NODE_GPU_STATUS.plural, "", node), {}).get("status") or {}

    def conditions(self, node: str) -> dict[str, Any]:
        """The node's conditions by type."""
        status: Any = self.objects.get((NODE.plural, "", node), {}).get("status") or {}
        return {condition["type"]: condition for condition in status.get("conditions", ())}

    async def until(self, condition: Callable[[], object]) -> None:
        """Return once the condition holds; it is looked at after every write."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def _tell(self, plural: str, name: str, change: ChangeType, obj: JsonObject) -> None:
        for kind, wanted, queue in self.watchers:
            if kind == plural and wanted in ("", name):
                queue.put_nowait((change, obj))
        self.changed.set()

    def _check(self, plural: str = "") -> None:
        if not self.reachable:
            raise ClusterError
        if plural in self.forbidden:
            raise ApiError(403, "Forbidden", f"{plural} is forbidden")

    async def list(
        self, kind: Kind[Any], *, namespace: str | None = None, field_selector: str = "", **_: str
    ) -> Listing[Any]:
        self._check(kind.plural)
        name = _name_in(field_selector)
        found = [
            msgspec.convert(obj, kind.type)
            for (plural, space, own), obj in self.objects.items()
            if plural == kind.plural and name in ("", own) and namespace in (None, space)
        ]
        return Listing(found, str(self.version))

    async def watch(
        self, kind: Kind[Any], *, resource_version: str = "", field_selector: str = "", **_options: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        self._check(kind.plural)
        queue: asyncio.Queue[tuple[ChangeType, JsonObject]] = asyncio.Queue()
        self.watchers.append((kind.plural, _name_in(field_selector), queue))
        seen = int(resource_version or self.version)
        own = _name_in(field_selector)
        for (plural, _space, name), obj in self.objects.items():
            meta: Any = obj["metadata"]
            if plural == kind.plural and own in ("", name) and int(meta["resourceVersion"]) > seen:
                queue.put_nowait((ChangeType.MODIFIED, obj))  # written since the list
        while True:
            change, obj = await queue.get()
            yield WatchEvent(change, msgspec.convert(obj, kind.type))

    async def dry_run_create(self, kind: Kind[Any], body: Any, *, namespace: str | None = None) -> Any:
        del namespace
        self._check()
        return msgspec.convert(body, kind.type)

    async def create(self, kind: Kind[Any], body: Any, *, namespace: str | None = None) -> Any:
        self._check()
        self.put(
            kind,
            body["metadata"]["name"],
            namespace or "",
            **{**body, "metadata": {**body["metadata"]}},
        )
        return None

    async def get(self, kind: Kind[Any], name: str, namespace: str | None = None) -> Any:
        self._check(kind.plural)
        if (obj := self.objects.get((kind.plural, namespace or "", name))) is None:
            raise ApiError(404, "NotFound", f'{kind.plural} "{name}" not found')
        return msgspec.convert(obj, kind.type)

    async def replace(self, kind: Kind[Any], body: Any, *, namespace: str | None = None) -> Any:
        name, version = body["metadata"]["name"], body["metadata"]["resourceVersion"]
        before: Any = self.objects[kind.plural, namespace or "", name]["metadata"]
        assert version == before["resourceVersion"]
        return await self.create(kind, body, namespace=namespace)

    async def delete(
        self, kind: Kind[Any], name: str, *, namespace: str | None = None, uid: str | None = None
    ) -> None:
        del uid
        self.remove(kind, name, namespace or "")

    async def create_subresource(
        self, kind: Kind[Any], name: str, subresource: str, _body: Any, *, namespace: str | None = None
    ) -> Any:
        assert (kind, subresource) == (POD, "eviction")
        self.remove(kind, name, namespace or "")

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
        self._check(f"{kind.plural}/{subresource}")
        if (kind.plural, namespace or "", name) not in self.objects:
            if patch_type is PatchType.APPLY:
                return await self.create(kind, patch, namespace=namespace)
            raise ApiError(404, "NotFound", f'{kind.plural} "{name}" not found')
        if patch_type is PatchType.STRATEGIC:
            assert (kind, subresource, list(patch), list(patch["status"])) == (
                *(NODE, "status"),
                *(["status"], ["conditions"]),
            )
            fresh = {condition["type"]: condition for condition in patch["status"]["conditions"]}
            patch = {"status": {"conditions": [*(self.conditions(name) | fresh).values()]}}
        old: Any = self.objects[kind.plural, namespace or "", name]
        meta: Any = old.get("metadata", {})
        merged = {
            key: _merged(meta.get(key) or {}, value) if isinstance(value, dict) else value
            for key, value in patch.get("metadata", {}).items()
        }
        if patch_type is PatchType.MERGE and "status" in patch:
            patch = {**patch, "status": _merged(old.get("status") or {}, patch["status"])}
        self.put(kind, name, namespace or "", **(patch | {"metadata": merged}))
        return None


def _merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """As RFC 7386 merges maps."""
    merged = dict(old)
    for key, value in patch.items():
        if isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key) or {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _name_in(field_selector: str) -> str:
    """The one name that is asked for; empty for all, as there is one node only."""
    field, _, value = field_selector.partition("=")
    return value if field == "metadata.name" else ""


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> FastClock:
    return FastClock()


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    """A file with two devices."""
    file = tmp_path / "hardware.yaml"
    file.write_text(
        "devices:\n- {uuid: GPU-0, model: T4, numa: 0}\n- {uuid: GPU-1, model: T4, memoryUsedMib: 4096}\n"
    )
    return file
