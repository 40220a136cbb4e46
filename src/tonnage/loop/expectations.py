"""ControllerExpectations: what a controller has done and not yet seen in its copy, so as not to repeat it."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, TypeVar

from tonnage.loop.informer import Delta, Informer, Key
from tonnage.ports.clock import Clock
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)

_PATIENCE_S: Final = 300.0


class Expectations:
    """Creations and deletions, by the owner's key, that the informer has not shown yet.

    An expectation that stays unfulfilled for five minutes is given up: acting on a stale copy then is better
    than never acting again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._awaited: defaultdict[Key, dict[tuple[str, str], float]] = defaultdict(dict)
        self._owner_of: dict[tuple[str, str], Key] = {}

    def created(self, owner: Key, obj: T, informer: Informer[T]) -> None:
        """The controller made `obj`, which is not awaited if the copy has it already."""
        copied = informer.get(obj.metadata.name, obj.metadata.namespace)
        if copied is None or copied.metadata.uid != obj.metadata.uid:
            self._await(owner, ("created", obj.metadata.uid))

    def deleting(self, owner: Key, obj: Object) -> None:
        """The controller is about to delete `obj`."""
        self._await(owner, ("deleted", obj.metadata.uid))

    def deletion_failed(self, obj: Object) -> None:
        """The deletion did not happen after all."""
        self._fulfil(("deleted", obj.metadata.uid))

    def observe(self, delta: Delta[T]) -> None:
        """Take in a change of the copy."""
        obj = delta.after or delta.before
        if obj is None:
            return
        self._fulfil(("created", obj.metadata.uid))
        if delta.after is None or obj.metadata.deletion_timestamp:
            self._fulfil(("deleted", obj.metadata.uid))

    def satisfied(self, owner: Key) -> bool:
        """Whether the copy shows everything that was done for this owner."""
        now = self._clock.monotonic()
        for token, since in list(self._awaited.get(owner, {}).items()):
            if now - since >= _PATIENCE_S:
                self._fulfil(token)
        return not self._awaited.get(owner)

    def _await(self, owner: Key, token: tuple[str, str]) -> None:
        self._awaited[owner][token] = self._clock.monotonic()
        self._owner_of[token] = owner

    def _fulfil(self, token: tuple[str, str]) -> None:
        owner = self._owner_of.pop(token, None)
        if owner is None:
            return
        awaited = self._awaited[owner]
        awaited.pop(token, None)
        if not awaited:
            del self._awaited[owner]
