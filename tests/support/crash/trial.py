"""One change of a layout with an agent that is killed at one moment of it, and what must be so afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from support.crash.forked_agents import NEVER, Fuse
from support.crash.hardware import Gpu, ever_gone
from support.crash.node import API, CrashNode
from support.crash.node_objects import should_offer
from support.crash.transitions import CREATE, CREATE_PART, DESTROY, DESTROY_PART, MODE, Transition

CHANGES: Final = (CREATE, CREATE_PART, DESTROY, DESTROY_PART, MODE, "nvmlShutdown", "nvmlInitWithFlags")
"""Between the last two GPUs are reset."""
_FILES: Final = ("create ", "write ", "sync ", "rename ", "remove ")
_PROGRAM: Final = "program"
_HARDWARE: Final = "fake-nvml.conf"
_BEGIN: Final = ("create mig", API)


@dataclass(slots=True)
class Trial:
    """What came of it. `killed`: fuses that fell; `wrong`: what never became right; `lost`: by bystanders."""

    change: Transition
    fuses: tuple[Fuse, ...]
    killed: list[Fuse] = field(default_factory=list)
    wrong: str = ""
    lost: list[str] = field(default_factory=list)
    both_ways: bool = False
    """The driver refused the way back as well, because whoever was to end that was too late."""
    trace: tuple[str, ...] = ()
    """Of the first agent."""
    log: str = ""

    def __str__(self) -> str:
        when = ", ".join(map(str, self.killed)) or "never"
        return f"{self.change.kind}, killed {when}: {self.wrong} {self.lost}\n{self.change}\n{self.log}"


async def attempt(node: CrashNode, change: Transition, *fuses: Fuse) -> Trial:
    """Make that change, with an agent that ends at the first fuse, and so on.

    All but the first start without an API server, which is there again once one has ended what was begun.
    Without a fuse the agent is a program of its own from its first byte on, not forked.
    """
    trial = Trial(change, fuses)
    await node.set_scene(change)
    before = node.gpus()
    for place, fuse in enumerate((*fuses, NEVER)):
        await node.start_agent(fuse, loaded=bool(fuses))
        trial.wrong = await node.until(lambda: _unfinished(node, change)) if place else ""
        await node.relay.open()
        trial.wrong = trial.wrong or await _lived(node, change, before)
        trace = tuple(node.trace_file.read_text().splitlines())
        trial.trace = trial.trace or trace
        if not any(line.startswith("!") for line in trace):
            break
        trial.killed.append(fuse)
        node.relay.close()
        await node.end_agent()
    trial.lost = _lost(node, change, before)
    trial.both_ways = change.back and node.refused_back()
    trial.log = node.log() if trial.wrong or trial.lost else ""
    await node.end_agent()
    return trial


async def _lived(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> str:
    """Why the change does not come to its end, or the agent to the change's."""
    wrong = ""
    if change.refused and not node.healed:
        wrong = await node.until(lambda: _failed_well(node, change, before))
        if not wrong:
            node.heal()
    return wrong or await node.until(lambda: _undone(node, change, before))


async def _unfinished(node: CrashNode, change: Transition) -> str:
    """Why a node is paused, half changed, or says what is not so; nobody needs an API server for this."""
    if (journal := node.journal()) != b"null":
        return f"a change is under way: {journal[:400]!r}"
    there = should_offer(node.gpus())
    if (offered := node.offered()) != there:
        return f"offered is {_short(offered)}, there is {_short(there)}"
    if (named := node.named()) != set(there):
        return f"CDI names {sorted(named)}, there is {sorted(there)}"
    return node.host().stopped() if change.host else ""


async def _undone(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> str:
    """Why the layout is not the one that is asked for, and said to be."""
    if await node.label() != ("" if change.withdrawn else change.config):
        return "nobody has asked for the last layout yet"
    if (said := await node.said()) != (("", "") if change.withdrawn else ("success", "")):
        return f"the node says {said}"
    gpus = node.gpus()
    for slot, was in before.items():
        if change.withdrawn and _parts(gpus[slot]) == _parts(was):
            continue
        if slot in change.wanted and gpus[slot].wanted() != change.wanted[slot]:
            return f"GPU {slot} has {gpus[slot].wanted()}, wanted is {change.wanted[slot]}"
        if slot not in change.wanted and _parts(gpus[slot]) != _parts(was):
            return f"GPU {slot} is another one: {gpus[slot]}, it was {was}"
    return await node.paused() or await _unfinished(node, change)


async def _failed_well(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> str:
    """Why it has not failed as it should, with all as it was if the driver lets go back."""
    state, reason = await node.said()
    if state == "success" and change.back and node.lives > 1:
        return await _undone(
            node, change, before
        )  # begun while the driver refused nothing: it was to go back
    if state != "failed":
        return f"the node says {state} {reason}"
    gpus = node.gpus()
    lets_go_back = change.back and not node.refused_back()
    if lets_go_back and any(_parts(gpus[slot]) != _parts(before[slot]) for slot in before):
        return f"it failed, and not all is as it was: {gpus}"
    return await node.paused() or await _unfinished(node, change)


def _parts(gpu: Gpu) -> tuple[bool, list[tuple[int, int, tuple[int, ...]]]]:
    return gpu.enabled, gpu.parts()


def _lost(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> list[str]:
    """What bystanders had and have not had all the time: what they use, and all of other GPUs."""
    gpus, gone = node.gpus(), ever_gone(node.driver.file)
    own = {*change.wanted, *change.first, *change.along}
    theirs = {
        *change.stays,
        *((slot, gi) for slot in before if slot not in own for gi in before[slot].instances),
    }
    lost = [f"GPU instance {gi} of GPU {slot} was destroyed" for slot, gi in sorted(theirs & gone)]
    for slot, gi in sorted(theirs):
        computes = {key: value for key, value in before[slot].computes.items() if key[0] == gi}
        if any(gpus[slot].computes.get(key) != value for key, value in computes.items()):
            lost.append(f"GPU instance {gi} of GPU {slot} is another one")
    return lost


def _short(devices: dict[str, str]) -> dict[str, list[str]]:
    return {
        resource: sorted(d for d in devices if devices[d] == resource) for resource in set(devices.values())
    }


def fuses(trace: tuple[str, ...]) -> list[Fuse]:
    """Where an agent with that life may be killed: before and after every deed of the change.

    Those are changes of the hardware, of files, and of the API's objects, from the first word about it on;
    and of the questions to the driver between any two of them, one.
    """
    seen: Counter[str] = Counter()
    found: list[Fuse] = []
    begun, asked = False, False
    for deed in trace:
        seen[deed] += 1
        begun = begun or deed.startswith(_BEGIN)
        if not begun or _HARDWARE in deed:
            continue
        question = sort_of(deed) == "question"
        if not question or not asked:
            found += (Fuse(deed, seen[deed], after) for after in (False, True))
        asked = question
    return found


def different(found: Sequence[Fuse]) -> list[Fuse]:
    """Of moments in their order those that leave different things: the first, and after what changes any.

    What a killed agent leaves are hardware, files and objects as the deeds that are done have made them. So
    with N that change something it leaves one of N + 1 things, at whichever of the moments between it dies.
    """
    return [*found[:1], *(fuse for fuse in found if fuse.after and _changes(fuse.deed))]


def _changes(deed: str) -> bool:
    return not deed.startswith("sync ") and sort_of(deed) != "question"


def moments(trace: tuple[str, ...]) -> int:
    """How many there are before and after deeds, each question counted."""
    begin = next((place for place, deed in enumerate(trace) if deed.startswith(_BEGIN)), len(trace))
    return 2 * sum(_HARDWARE not in deed for deed in trace[begin:])


def sort_of(deed: str) -> str:
    """What is changed by it."""
    if deed == _PROGRAM:
        return deed
    if deed.startswith(API):
        return "API"
    if deed.startswith(_FILES):
        return "journal" if deed.endswith(" mig") else "file"
    return "hardware" if deed in CHANGES else "question"


def chosen(among: Sequence[Fuse], number: int, chance: random.Random, *, first: int = 0) -> list[Fuse]:
    """So many, of every sort as near to equally many as can be, before and after in turn; 0: all.

    `first`: the place of the sort to begin with, for changes that have fewer kills than there are sorts.
    """
    sorts: dict[tuple[bool, str], list[Fuse]] = {}
    for fuse in chance.sample(among, len(among)):
        sorts.setdefault((fuse.after, sort_of(fuse.deed)), []).append(fuse)
    names = sorted(sorts, key=lambda name: (name[1], name[0]))
    queues = [sorts[names[(first + place) % len(names)]] for place in range(len(names))]
    found: list[Fuse] = []
    while any(queues) and (not number or len(found) < number):
        found += (queue.pop() for queue in queues if queue)
    return found[: number or None]
