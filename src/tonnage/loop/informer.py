"""SharedInformer, Reflector: fresh copies of collections: list, watch, resume, list again after 410.

Stands on the Kubernetes port alone, so that the real world and the twin share it.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from tonnage.model.errors import ApiError, Bug, ClusterError, GoneError, Problem
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import ChangeType, KubernetesReader, WatchEvent
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped kinds."""
Economies: TypeAlias = Mapping[type[Object], Callable[[Any, Any], Any]]
"""By type: what makes of an object's last state, None at first, and its next one that which is kept."""

_UNREACHABLE_S: Final = (0.05, 0.2, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Nobody is there to be hurt by a question: one that comes back is found within twenty seconds."""
_REFUSED_S: Final = (0.05, 0.2, 1.0, 5.0, 15.0, 30.0)
_LOG: Final = logging.getLogger(__name__)


def key_of(obj: Object) -> Key:
    """(namespace, name) of an object."""
    return obj.metadata.namespace, obj.metadata.name


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """What became of one object: `before` is None when it appeared, `after` when it is gone.

    Both have the same uid: an object that was deleted and made again under its name is two deltas. `before`
    of a deletion is the object as it was last seen, also when the deletion itself was missed.
    """

    before: T | None
    after: T | None


class _Index(Generic[T]):
    """Keys by value, kept in step with the objects."""

    def __init__(self, values_of: Callable[[T], Iterable[str]]) -> None:
        self._values_of = values_of
        self._keys: defaultdict[str, dict[Key, None]] = defaultdict(dict)

    def move(self, key: Key, before: T | None, after: T | None) -> None:
        left = tuple(self._values_of(before)) if before is not None else ()
        come = tuple(self._values_of(after)) if after is not None else ()
        if left == come:
            return
        for value in left:
            keys = self._keys[value]
            keys.pop(key, None)
            if not keys:
                del self._keys[value]
        for value in come:
            self._keys[value][key] = None

    def keys(self, value: str) -> Iterable[Key]:
        return self._keys.get(value, ())


class Informer(Generic[T]):
    """Objects of one kind by key. `on_change(key)` is called after every change that was applied.

    Several may run it: one of them does, and when that one is cancelled the next goes on.

    Nothing is lost when a watch is cut, at whatever moment: it is resumed from the last version seen, and
    after 410 the difference to a new list is told as deltas. A watch that stays silent for `stall_s` (a
    healthy one carries bookmarks about once a minute) is cut and resumed. While the server cannot be reached,
    the copy stays as it was. Handlers run in the order of the changes and must not block.
    """

    def __init__(  # noqa: PLR0913 - docs/critiques.md says why
        self,
        api: KubernetesReader,
        kind: Kind[T],
        clock: Clock,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        on_change: Callable[[Key], None] | None = None,
        economise: Callable[[T | None, T], T] | None = None,
    ) -> None:
        self._api = api
        self.kind = kind
        self._clock = clock
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._on_change = [] if on_change is None else [on_change]
        self.stall_s = 300.0
        self._economise = economise
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: list[Callable[[Delta[T]], None]] = []
        self._waiters: set[asyncio.Future[None]] = set()
        self._turn = asyncio.Lock()
        self.begun = False
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._version = ""
        self._failures = 0
        self._refused = False
        # Of a fleet whose server is away, no two nodes ask in step.
        self._spread = 0.75 + zlib.crc32(f"{kind.plural} {field_selector}".encode()) / (1 << 33)
        self._last_event_s = 0.0
        self.errors = 0
        """How often the server refused or could not be reached."""
        self.refusal: ApiError | None = None
        """Why the server does not let the kind be read; the copy stays as it was. None: it does."""
        self.lost_s: float | None = None
        """Since when the copy cannot be kept fresh, by the monotonic clock; None while it is."""

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object as last seen, or None."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def add_index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Keep objects findable by the values that `values_of` names for each; see `by_index`.

        An index of that name that is there already stays: all who share a copy mean the same by it.
        """
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(values_of)
        for key, obj in self._objects.items():
            index.move(key, None, obj)

    def by_index(self, name: str, value: str) -> list[T]:
        """Objects for which the index's function named `value`."""
        return [self._objects[key] for key in self._indexes[name].keys(value)]

    def subscribe(self, handler: Callable[[Delta[T]], None]) -> None:
        """Have `handler` called after every change from now on, before `on_change`."""
        self._handlers.append(handler)

    def notify(self, on_change: Callable[[Key], None]) -> None:
        """Have `on_change(key)` called after every change from now on."""
        self._on_change.append(on_change)

    async def synced(self) -> None:
        """Return once the first list is in."""
        await self._synced.wait()

    async def answered(self) -> bool:
        """Return once the first list is in, or the server does not let it be read; whether it is in."""
        await self._answered.wait()
        return self._synced.is_set()

    async def wait_for(self, predicate: Callable[[Informer[T]], bool]) -> None:
        """Return once the copy satisfies `predicate`, which is asked again after every change."""
        while not (self._synced.is_set() and predicate(self)):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    async def run(self) -> None:
        """Keep the copy fresh until cancelled. An unreachable server is retried with back-off."""
        self.begun = True
        async with self._turn:
            await self._keep_fresh()

    async def _keep_fresh(self) -> None:
        while True:
            try:
                await self._round()
            except GoneError:
                self._version = ""
                self._count(refused=True)
                await self._pause(self._failures)
            except ClusterError as error:
                self.errors += 1
                if self.lost_s is None:
                    self.lost_s = self._clock.monotonic()
                if isinstance(error, ApiError) and error.code != 429 and error.code < 500:
                    self._version = ""  # the server does not like what was asked: start over
                    self.refusal = error
                    self._answered.set()
                self._count(refused=isinstance(error, ApiError))
                _LOG.info("watch failed: kind=%s failures=%d error=%s", self.kind.kind, self._failures, error)
                await self._pause(self._failures + 1)

    async def _round(self) -> None:
        """One watch, after a list if there is no version to start from; returns when the watch ends."""
        if not self._version:
            await self._relist()
        started_s = self._last_event_s = self._clock.monotonic()
        version = self._version
        await self._follow()
        if self._version == version and self._clock.monotonic() - started_s < 1.0:
            self._count(refused=True)
            await self._pause(self._failures + 1)  # a server that ends every watch at once is not hammered

    def _count(self, *, refused: bool) -> None:
        """Count anew when the server comes or goes: a first refusal after an outage is no reason to wait."""
        if refused != self._refused:
            self._refused, self._failures = refused, 0

    async def _pause(self, failures: int) -> None:
        self._failures += 1
        steps = _REFUSED_S if self._refused else _UNREACHABLE_S
        if failures:
            await self._clock.sleep(steps[min(failures, len(steps)) - 1] * self._spread)

    async def _follow(self) -> None:
        """Watch until the stream ends, fails or falls silent."""
        reader = asyncio.create_task(self._read())
        silence = asyncio.create_task(self._silence())
        try:
            await asyncio.wait((reader, silence), return_when=asyncio.FIRST_COMPLETED)
            if not reader.done():
                _LOG.info("watch cut: silent for %g s: kind=%s", self.stall_s, self.kind.kind)
        finally:
            reader.cancel()
            silence.cancel()
            await asyncio.gather(reader, silence, return_exceptions=True)
        if not reader.cancelled():
            reader.result()

    async def _read(self) -> None:
        stream = self._api.watch(
            self.kind, resource_version=self._version, namespace=self._namespace, **self._selectors
        )
        try:
            async for change in stream:
                self._failures = 0
                self.lost_s = None
                self._last_event_s = self._clock.monotonic()
                self._apply(change)
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _silence(self) -> None:
        while (left_s := self._last_event_s + self.stall_s - self._clock.monotonic()) > 0:
            await self._clock.sleep(left_s)

    async def _relist(self) -> None:
        options: dict[str, Any] = dict(self._selectors)
        if self._economise is not None:
            options["keep"] = self._economical
        listing = await self._api.list(self.kind, namespace=self._namespace, **options)
        fresh = {key_of(listed): listed for listed in listing.items}
        for key in [key for key in self._objects if key not in fresh]:
            self._set(key, None)
        for key, obj in fresh.items():
            self._set(key, obj)
        self._version = listing.resource_version
        self.lost_s = None
        self.refusal = None
        self._synced.set()
        self._answered.set()
        self._wake()

    def _apply(self, change: WatchEvent[T]) -> None:
        if change.type is not ChangeType.BOOKMARK:
            deleted = change.type is ChangeType.DELETED
            self._set(key_of(change.object), None if deleted else self._economical(change.object))
        self._version = change.object.metadata.resource_version

    def _economical(self, obj: T) -> T:
        return obj if self._economise is None else self._economise(self._objects.get(key_of(obj)), obj)

    def _set(self, key: Key, after: T | None) -> None:
        """Put the object in its place and tell what changed, if anything did."""
        before = self._objects.get(key)
        if before is not None and after is not None:
            if before.metadata.resource_version == after.metadata.resource_version:
                return
            if before.metadata.uid != after.metadata.uid:
                self._set(key, None)
                before = None
        if before is None and after is None:
            return
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        for index in self._indexes.values():
            index.move(key, before, after)
        delta = Delta(before, after)
        for handler in self._handlers:
            handler(delta)
        for on_change in self._on_change:
            on_change(key)
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class Informers:
    """The copies that the loops of one process share: of each kind one list, one watch and one copy."""

    def __init__(
        self,
        api: KubernetesReader,
        clock: Clock,
        economise: Economies = MappingProxyType({}),
    ) -> None:
        self._api = api
        self._clock = clock
        self._economise = economise
        self._by_kind: defaultdict[tuple[str, str, str], list[Informer[Any]]] = defaultdict(list)

    def of(self, kind: Kind[T], on_change: Callable[[Key], None] | None = None) -> Informer[T]:
        """The copy of a kind, for all who read its objects as this type or a wider one.

        Raises Bug once somebody runs it: what it has by then nobody is told again.
        """
        informers = self._by_kind[kind.group, kind.version, kind.plural]
        informer: Informer[T] | None = next(
            (candidate for candidate in informers if issubclass(candidate.kind.type, kind.type)), None
        )
        if informer is None:
            economise = self._economise.get(kind.type)
            informer = Informer(self._api, kind, self._clock, economise=economise)
            informers.append(informer)
        if informer.begun:
            raise Bug(Problem(f"the copy of {kind.plural} is asked for after it has begun"))
        if on_change is not None:
            informer.notify(on_change)
        return informer


class Followed(Protocol):
    """An informer, or several as one."""

    async def run(self) -> None:
        """Keep the copy fresh until cancelled."""

    async def synced(self) -> None:
        """Return once the first list is in."""


@asynccontextmanager
async def following(*copies: Followed) -> AsyncIterator[asyncio.TaskGroup]:
    """Keep copies fresh; what is inside begins when all first lists are in, and may add tasks beside them."""
    async with asyncio.TaskGroup() as group:
        for copy in copies:
            group.create_task(copy.run())
        for copy in copies:
            await copy.synced()
        yield group
