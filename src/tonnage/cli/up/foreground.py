"""Runs a cluster in this process until a signal, or its lab, ends it."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from tonnage.cli.locations.labs_and_scenarios import load_lab
from tonnage.cli.locations.state import StateFolder
from tonnage.cli.options import Common
from tonnage.cli.terminal.output import progress, say
from tonnage.cli.up.announcement import say_where
from tonnage.cli.up.embedded import embedded_cluster, wait_until_ready
from tonnage.cli.up.options import UpOptions
from tonnage.cli.up.readiness import Readiness
from tonnage.documents.scenario import Scenario

_WATCH_S: Final = 0.5
_LOADED: Final = 300_000
"""More objects than are made until a fleet is up, of which hardly any is garbage."""


async def run_until_ended(options: UpOptions, scenario: Scenario, common: Common) -> int:
    """The exit status, once a signal has ended the cluster, or the lab is over and there is no terminal."""
    ended = _end_on_signals()
    folder = StateFolder(options.state)
    collect_after = gc.get_threshold()
    gc.set_threshold(_LOADED, *collect_after[1:])
    async with embedded_cluster(scenario, folder, options.serving) as cluster:
        waiting = asyncio.create_task(wait_until_ready(cluster, scenario, Progress().tell))
        if not await _before(waiting, ended):
            return 0
        waiting.result()
        gc.freeze()  # what is loaded stays: no answer waits while the collector goes through it
        gc.set_threshold(*collect_after)
        say_where(cluster.running)
        if options.lab is not None:
            from tonnage.cli.lab.command import run_on

            lab = asyncio.create_task(
                run_on(load_lab(options.lab), cluster.kubeconfig, common, keep=False, pauses=options.pauses)
            )
            if not await _before(lab, ended):
                return 1
            if not sys.stdin.isatty() or not sys.stdout.isatty():
                return lab.result()
            say()
            say("The cluster stays up. Ctrl-C ends it.")
        watching = asyncio.create_task(_until_broken(cluster.check))
        if await _before(watching, ended):
            watching.result()
        say("Stopping.", err=True)
    return 0


async def _until_broken(check: Callable[[], None]) -> None:
    """Look after the cluster's processes; raises what `check` raises."""
    while True:
        check()
        await asyncio.sleep(_WATCH_S)


async def _before(task: asyncio.Task[Any], ended: asyncio.Event) -> bool:
    """Wait for the task; False when the cluster is to end first, the task then cancelled and over."""
    end = asyncio.create_task(ended.wait())
    await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if task.done():
        return True
    task.cancel()
    await asyncio.wait({task})
    return False


def _end_on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set, so that the cluster ends in order; a second one is not caught."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end() -> None:
        ended.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, end)
    return ended


class Progress:
    """Nodes coming up: one line that changes on a terminal, nothing elsewhere until all are there."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def tell(self, now: Readiness) -> None:
        """Show how far the fleet is."""
        if self._terminal:
            progress(str(now), end="\n" if now.complete else "")
        elif now.complete:
            say(str(now), err=True)
