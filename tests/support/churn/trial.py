"""Some time of churn on a server: writers, watchers in several clients, and a server that fails them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from support.churn.account import Line, faults_of, terms_of
from support.churn.churned_servers import Side, program_environment
from support.churn.writers import MAPS, Writer, asked, changed, connection
from support.deadlines import join
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_WRITERS: Final = 6
_PATIENCE_S: Final = 150.0
"""An informer waits up to a minute before it tries again where it has failed often."""
_KILL_EVERY_S: Final = 90.0
"""Or informers, which wait the longer the more often they failed, would wait most of the time."""
_LEASES: Final = 2
_LOOK_S: Final = 5.0
"""Leases are renewed more often than that, while there is a server."""
_AWAY_S: Final = 6.0
"""Longer than a lease lasts, and than the server remembers."""


@dataclass
class Watcher:
    """A client's program and what it has said."""

    name: str
    command: Sequence[str]
    lines: list[Line] = field(default_factory=list)

    def start(self, complaints: Path) -> None:
        with complaints.open("wb") as file:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**program_environment(), "TMPDIR": str(complaints.parent)},
            )
        self._complaints = complaints
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(msgspec.json.decode(line, type=Line))

    def ask(self) -> None:
        """Have it say what it believes."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # how it ended is told at the end
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    def believes(self) -> dict[str, str] | None:
        """What it has said last that it believes."""
        return next((line.objects for line in reversed(self.lines) if line.what == "believes"), None)

    def freeze(self) -> None:
        """Let it hear and do nothing, as in a long pause of its machine."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Nothing of it stays, however the trial goes; when it has ended nothing is done."""
        self._process.kill()

    def end(self) -> str:
        """Have it end; what it complained of when it ended badly."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
        code = self._process.wait(60)
        join(self._reader)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return f"{self.name} ended with {code}: {self._complaints.read_text()[-2000:]}" if code else ""


@dataclass
class Leases:
    """What each Lease has been, version by version: a watch misses none, and a look now and then would miss
    that one was given back.
    """

    endpoint: Endpoint
    over: threading.Event
    held: dict[str, list[tuple[str, float, float, float]]] = field(default_factory=dict)

    def run(self) -> None:
        version = ""
        while not self.over.is_set():
            on = connection(self.endpoint, _LOOK_S)
            try:
                version = version or self._list(on)
                for change in changed(on, self.endpoint.token, LEASES, version):
                    if change["type"] == "ERROR":
                        version = ""
                        break
                    version = self._note(change["object"])
                    if self.over.is_set():
                        break
            except (OSError, HTTPException, ValueError):
                self.over.wait(0.1)
            finally:
                on.close()

    def _list(self, on: HTTPSConnection) -> str:
        """What the server forgot meanwhile nobody can judge: an empty holder stands for it."""
        code, listed = asked(on, self.endpoint.token, "GET", LEASES)
        if code != HTTPStatus.OK:
            raise ValueError(code)
        for versions in self.held.values():
            versions.append(("", 0.0, 0.0, 0.0))
        for lease in listed["items"]:
            self._note(lease)
        return str(listed["metadata"]["resourceVersion"])

    def _note(self, lease: dict[str, dict[str, str]]) -> str:
        spec = lease["spec"]
        times = [datetime.fromisoformat(spec[key]).timestamp() for key in ("acquireTime", "renewTime")]
        now = (spec.get("holderIdentity", ""), times[0], times[1], float(spec["leaseDurationSeconds"]))
        self.held.setdefault(lease["metadata"]["name"], []).append(now)
        return lease["metadata"]["resourceVersion"]


@dataclass(frozen=True)
class Report:
    """What became of it."""

    faults: list[str]
    writes: int
    done: Counter[str]
    counts: dict[str, Counter[str]]
    leaders: dict[str, list[str]]
    """By Lease: who held it, one after the other."""

    def __str__(self) -> str:
        shown = {name: dict(sorted(counts.items())) for name, counts in self.counts.items()}
        head = f"{self.writes} writes, {dict(self.done)}, {len(self.faults)} faults"
        return "\n".join((head, json.dumps(shown, indent=1), json.dumps(self.leaders)))


def watchers_of(kubeconfig: Path, informer: Path) -> list[Watcher]:
    """Two informers of client-go, which stand for a Lease, lightkube, and the official client with two
    candidates for another Lease.
    """
    python = [sys.executable, "-m"]
    return [
        *(
            Watcher(f"client-go {one}", [str(informer), "-kubeconfig", str(kubeconfig), "-identity", one])
            for one in ("a", "b")
        ),
        Watcher("lightkube", [*python, "support.churn.lightkube_program", str(kubeconfig)]),
        Watcher("official", [*python, "support.churn.official_program", str(kubeconfig), "a", "b"]),
    ]


def churn(side: Side, seconds: float, informer: Path, random: Random) -> Report:
    """Write, watch, cut and kill for so long; then compare."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, ExitStack() as stack:
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.touch(0o600)
        kubeconfig.write_text(kubeconfig_text(side.endpoint))
        watchers = watchers_of(kubeconfig, informer)
        for watcher in watchers:
            watcher.start(Path(folder, watcher.name))
            stack.callback(watcher.kill)
        over = threading.Event()
        leases = Leases(side.endpoint, over)
        writers = [Writer(n, side.endpoint, Random(random.random()), over) for n in range(_WRITERS)]
        threads = [threading.Thread(target=run) for run in (*(one.run for one in writers), leases.run)]
        for thread in threads:
            thread.start()
        try:
            _wait_for(watchers, leases)
            done = _disturb(side, watchers, seconds, random)
        finally:
            over.set()
            for thread in threads:
                join(thread)
        return _judged(side, watchers, writers, leases, done)


def _wait_for(watchers: Sequence[Watcher], leases: Leases) -> None:
    """Until each client has told of a change, and each Lease has been held."""
    deadline = time.monotonic() + _PATIENCE_S
    while len(leases.held) < _LEASES or not all(_has_told(watcher) for watcher in watchers):
        assert time.monotonic() < deadline, {one.name: len(one.lines) for one in watchers}
        time.sleep(0.1)


def _has_told(watcher: Watcher) -> bool:
    return any(line.what == "MODIFIED" for line in watcher.lines)


def _disturb(side: Side, watchers: Sequence[Watcher], seconds: float, random: Random) -> Counter[str]:
    """What was done to them, how often: watches cut, the server killed, a client away for a while."""
    done = Counter[str]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for deed in random.sample(("cut", "cut", "kill", "away"), 4):
            time.sleep(0.5 + 2 * random.random())
            if deed == "kill" and done["kill"] > (seconds - (end - time.monotonic())) / _KILL_EVERY_S:
                continue
            done[deed] += 1
            if deed == "kill":
                side.kill()
            side.cut()
            if deed == "away":
                watcher = random.choice(watchers)
                watcher.freeze()
                side.cut()
                time.sleep(_AWAY_S)
                watcher.thaw()
    return done


def _judged(
    side: Side, watchers: list[Watcher], writers: list[Writer], leases: Leases, done: Counter[str]
) -> Report:
    on = connection(side.endpoint)
    for writer in writers:
        writer.settle()
    items = asked(on, side.endpoint.token, "GET", MAPS)[1]["items"]
    on.close()
    final = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and any(one.believes() != final for one in watchers):
        for watcher in watchers:
            watcher.ask()
        time.sleep(0.5)
    faults = [said for watcher in watchers if (said := watcher.end())]
    faults += [refusal for writer in writers for refusal in writer.refused]
    versions = sorted(version for writer in writers for version in writer.versions)
    counts: dict[str, Counter[str]] = {}
    for watcher in watchers:
        found, counts[watcher.name] = faults_of(watcher.lines, versions, final)
        faults += [f"{watcher.name}: {fault}" for fault in found]
    faults += [fault for held in leases.held.values() for fault in terms_of(held)]
    leaders = {
        name: [one[0] for n, one in enumerate(held) if n == 0 or held[n - 1][0] != one[0]]
        for name, held in leases.held.items()
    }
    return Report(faults, sum(writer.written for writer in writers), done, counts, leaders)
