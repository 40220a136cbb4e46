"""What a client says that it listed, watched and believes, held against what was written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import msgspec

_WIRE: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_HANDLED: Final = {"added": "ADDED", "updated": "MODIFIED", "deleted": "DELETED"}


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened to a client.

    `what` is LIST with all `objects` (name to version) and the list's `version`; WATCH from a version,
    `initial` when the present state comes first; an event's type; BOOKMARK, `initial` where the present state
    ends; ERROR with its `detail`; `added`, `updated` or `deleted`, told to an informer's handler; `believes`
    with `objects`; `leads` or `leads no more` with the candidate's `name`.
    """

    what: str
    name: str = ""
    version: str = ""
    initial: bool = False
    objects: dict[str, str] = {}
    detail: str = ""


@dataclass(slots=True)
class Account:
    """A client's story, line by line. `writes` are the versions of all writes whose version is known."""

    writes: Sequence[int]
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    known: dict[str, int] = field(default_factory=dict)
    position: int = 0
    _arriving: dict[str, int] | None = None

    def tell(self, line: Line) -> None:
        """Go on by one line of what came over the wire."""
        self.counts[line.what] += 1
        match line.what:
            case "LIST":
                self._present({name: int(version) for name, version in line.objects.items()}, line)
            case "WATCH":
                self._arriving = {} if line.initial else None
                if not line.initial and int(line.version) != self.position:
                    self.faults.append(f"watches from {line.version}, but knows {self.position}")
            case "BOOKMARK" if line.initial:
                self._present(self._arriving or {}, line)
                self._arriving = None
            case "BOOKMARK":
                self._pass(int(line.version), "bookmark", itself=True)
            case "ERROR":
                self.counts["gone"] += "410" in line.detail or "too old" in line.detail
            case what if what in _WIRE:
                self._event(line)

    def _present(self, objects: dict[str, int], line: Line) -> None:
        version = int(line.version)
        if version < self.position:
            self.faults.append(f"{line.what} at {version} after {self.position} was known")
        self.known, self.position = objects, version

    def _event(self, line: Line) -> None:
        version, name = int(line.version), line.name
        if self._arriving is not None:
            if line.what != "ADDED" or name in self._arriving:
                self.faults.append(f"{line.what} of {name} among the present state")
            self._arriving[name] = version
            return
        before = self.known.get(name)
        if (line.what == "ADDED") is not (before is None):
            self.faults.append(f"{line.what} of {name} at {version}, which was {before}")
        self._pass(version, f"{line.what} of {name}", itself=False)
        if line.what == "DELETED":
            self.known.pop(name, None)
        else:
            self.known[name] = version

    def _pass(self, version: int, what: str, *, itself: bool) -> None:
        """Move on to a version; a write between is missed, `itself` says whether one at the version too."""
        if version < self.position or (version == self.position and not itself):
            self.faults.append(f"{what} at {version} after {self.position}: doubled, or out of order")
            return
        end = (bisect_right if itself else bisect_left)(self.writes, version)
        for missed in self.writes[bisect_right(self.writes, self.position) : end]:
            self.faults.append(f"the write at {missed} was missed: {what} at {version} after {self.position}")
        self.position = version


def faults_of(
    lines: Iterable[Line], writes: Sequence[int], final: Mapping[str, str]
) -> tuple[list[str], Counter[str]]:
    """All that is wrong in a client's story, at whose end the list was `final`, and how often what was."""
    told = list(lines)
    account = Account(sorted(writes))
    for line in told:
        account.tell(line)
    faults = account.faults
    wanted = {name: int(version) for name, version in final.items()}
    if account.known != wanted:
        faults.append(f"the events lead to {account.known}, the list is {wanted}")
    believed = [line.objects for line in told if line.what == "believes"]
    if not believed or believed[-1] != dict(final):
        last = [line for line in told if line.what != "believes"][-8:]
        faults.append(f"believed is {believed[-1:]}, the list is {dict(final)}; before that came {last}")
    if any(line.what in _HANDLED for line in told):
        faults += _unhandled(told)
    return faults, account.counts


def _unhandled(told: Sequence[Line]) -> Iterator[str]:
    """Events that an informer's handler was not told of, told twice, or told in another order."""
    live, arriving = Counter[tuple[str, str]](), False
    for line in told:
        if line.what == "WATCH":
            arriving = line.initial
        arriving = arriving and not (line.what == "BOOKMARK" and line.initial)
        if line.what in _WIRE and not arriving:
            live[line.name, line.version] += 1
    heard = Counter((line.name, line.version) for line in told if line.what in _HANDLED)
    for name, version in live - heard:
        yield f"the handler was not told of {name} at {version}"
    known: dict[str, int] = {}
    for line in told:
        if line.what not in _HANDLED:
            continue
        before, now = known.get(line.name), int(line.version)
        if (line.what == "added") is not (before is None):
            yield f"the handler was told {line.what} of {line.name} at {now}, which was {before}"
        if before is not None and now < before:  # it may be told again what it knows: after a new list
            yield f"the handler was told of {line.name} at {now} after {before}"
        if line.what == "deleted":
            known.pop(line.name, None)
        else:
            known[line.name] = now


CLOCKS_S: Final = 0.1
"""Candidates count the seconds of a Lease by themselves, and write the time of day: a step of the clock
between a renewal and the next holder's look is no fault of the server. One such step of 18 ms was seen."""


def terms_of(holders: Sequence[tuple[str, float, float, float]]) -> list[str]:
    """What is wrong in the versions of a Lease: (holder, acquired, renewed, seconds), oldest first."""
    faults = []
    for (holder, _, renewed, seconds), (after, acquired, *_) in pairwise(holders):
        if holder and after and holder != after and acquired < renewed + seconds - CLOCKS_S:
            faults.append(f"{after} took the lease at {acquired}, {holder} had it until {renewed + seconds}")
    return faults
