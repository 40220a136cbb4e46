"""`python -m fuzz.gate`: every target for a moment, without atheris, in so many seconds for all of them.

Each target has a process of its own, which is killed when one input lasts too long, and may map only so much
memory. Its inputs are the corpus, then changes of it and now and then a hostile one, by a seed that is
another one each day; `--seed` repeats a day, `--every-hostile` tries those alone, all of them in all sizes.
What fails lies in the folder `--findings`; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from random import Random
from typing import Final

from fuzz.bounds import MOST_WALL_S, Cost, bounded, few_addresses
from fuzz.hostile.families import HOSTILE, SIZES, hostile_for
from fuzz.inputs import changed, corpus_of
from fuzz.targets import TARGETS

_ROUND: Final = 24
"""Changes between two hostile inputs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a target did with its inputs; `trouble` says what was wrong with the last one."""

    executions: int
    cost: Cost
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A target's process, where its outcome comes from, and where its input lies."""

    name: str
    process: ForkProcess
    outcome: Connection
    input: Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.gate", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=int(f"{datetime.now(UTC):%Y%m%d}"))
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--every-hostile", action="store_true", help="however long it takes")
    parser.add_argument("--findings", type=Path, default=Path(".fuzz/findings"))
    options = parser.parse_args()
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(sorted(TARGETS))}")
    options.findings.mkdir(parents=True, exist_ok=True)
    names = options.targets or sorted(TARGETS)
    print(f"fuzz: {len(names)} targets, seed {options.seed}", flush=True)
    failed = _run_all(names, options)
    print(f"fuzz: {', '.join(failed)} failed; inputs are in {options.findings}" if failed else "fuzz: well")
    return 1 if failed else 0


def _run_all(names: list[str], options: argparse.Namespace) -> list[str]:
    """The targets that failed. Those that wait share what is left of the time."""
    end = time.monotonic() + options.seconds
    waiting, running, failed = list(names), list[Running](), list[str]()
    while waiting or running:
        while waiting and len(running) < options.workers:
            left = max(0.0, end - time.monotonic()) * options.workers / len(waiting)
            running.append(_start(waiting.pop(0), left, options))
        ready = wait([each.process.sentinel for each in running])
        for one in [each for each in running if each.process.sentinel in ready]:
            running.remove(one)
            outcome = _outcome(one)
            _tell(one.name, outcome)
            if outcome.trouble:
                failed.append(one.name)
                kept = options.findings / f"{one.name}-{sha256(one.input.read_bytes()).hexdigest()[:12]}"
                one.input.replace(kept)
                print(f"  {kept}: {outcome.trouble}", flush=True)
            else:
                one.input.unlink(missing_ok=True)
    return failed


def _start(name: str, seconds: float, options: argparse.Namespace) -> Running:
    here, there = multiprocessing.Pipe(duplex=False)
    file = options.findings / f".{name}.{os.getpid()}"
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(name, seconds, options.seed, options.every_hostile, file, there)
    )
    process.start()
    there.close()
    return Running(name, process, here, file)


def _outcome(one: Running) -> Outcome:
    """What the process said, or how it ended without a word."""
    one.process.join()
    try:
        outcome: Outcome = one.outcome.recv()
    except EOFError:
        code = one.process.exitcode or 0
        late = f"an input took more than {MOST_WALL_S:g} s"
        why = late if code == -signal.SIGALRM else f"the process ended with {code}"
        outcome = Outcome(0, Cost(), why)
    return outcome


def _tell(name: str, outcome: Outcome) -> None:
    cost = outcome.cost
    said = f"{name:22}{outcome.executions:7} inputs, at most {cost.peak_mib:5.1f} MiB"
    print(f"{said}, slowest {cost.cpu_s:6.3f} s ({cost.size} bytes)", flush=True)


def _work(name: str, seconds: float, seed: int, every: bool, file: Path, outcome: Connection) -> None:
    """In a process of its own: try inputs until the time is over, and say what came of it."""
    logging.disable()
    end = time.monotonic() + seconds
    executions, cost, trouble = 0, Cost(), ""
    inputs = chain.from_iterable(hostile_for(name, size) for size in SIZES) if every else _inputs(name, seed)
    try:
        with TARGETS[name]() as target, few_addresses():
            for data in inputs:
                file.write_bytes(data)  # whoever kills this process wants to know what it was at
                signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
                cost = cost.highest(bounded(target, data))
                executions += 1
                if not every and time.monotonic() >= end:
                    break
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception:
        signal.setitimer(signal.ITIMER_REAL, 0)
        trouble = traceback.format_exc(limit=-4).strip()
    outcome.send(Outcome(executions, cost, trouble))


def _inputs(name: str, seed: int) -> Iterator[bytes]:
    """The corpus, then changes and hostile inputs without end; the same for the same seed."""
    random, corpus = Random(f"{seed} {name}"), corpus_of(name)
    yield from corpus
    while True:
        family, size = random.choice(HOSTILE[name]), random.choice(SIZES[:-1])
        yield random.choice(list(family(size)))
        yield from changed(corpus, _ROUND, random.getrandbits(32))


if __name__ == "__main__":
    sys.exit(main())
