"""One change of a layout with an agent that is killed at one moment of it, and what must be so afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from support.crash.hardware import Gpu, ever_gone
from support.crash.node import API, CrashNode, should_offer
from support.crash.nursery import NEVER, Fuse
from support.crash.transitions import CREATE, CREATE_PART, DESTROY, DESTROY_PART, MODE, Transition

CHANGES: Final = (CREATE, CREATE_PART, DESTROY, DESTROY_PART, MODE)
_FILES: Final = ("create ", "write ", "sync ", "rename ", "remove ")
_HARDWARE: Final = "fake-nvml.conf"
_BEGIN: Final = "create mig"


@dataclass(slots=True)
class Trial:
    """What came of it. `wrong`: what never became right; `lost`: what bystanders lost."""

    change: Transition
    fuse: Fuse
    killed: bool = False
    wrong: str = ""
    lost: list[str] = field(default_factory=list)
    trace: tuple[str, ...] = ()
    log: str = ""

    def __str__(self) -> str:
        return f"{self.change.kind}, killed {self.fuse}: {self.wrong} {self.lost}\n{self.change}\n{self.log}"


async def attempt(node: CrashNode, change: Transition, fuse: Fuse = NEVER) -> Trial:
    """Make that change, with an agent that ends at `fuse`; the next one starts without an API server."""
    trial = Trial(change, fuse)
    await node.set_scene(change)
    before = node.gpus()
    await node.start_agent(fuse)
    trial.wrong = await _lived(node, change, before)
    trial.trace = tuple(node.trace_file.read_text().splitlines())
    trial.killed = any(line.startswith("!") for line in trial.trace)
    if trial.killed:
        node.relay.close()
        await node.end_agent()
        await node.start_agent()
        trial.wrong = await node.until(lambda: _unfinished(node))
        await node.relay.open()
        trial.wrong = trial.wrong or await _lived(node, change, before)
    trial.lost = _lost(node, change, before)
    trial.log = node.log() if trial.wrong or trial.lost else ""
    await node.end_agent()
    return trial


async def _lived(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> str:
    """Why the change does not come to its end, or the agent to the change's."""
    wrong = ""
    if change.rules and not node.healed:
        wrong = await node.until(lambda: _failed_well(node, change, before))
        if not wrong:
            node.heal()
    return wrong or await node.until(lambda: _undone(node, change))


async def _unfinished(node: CrashNode) -> str:
    """Why a node is paused, half changed, or says what is not so; nobody needs an API server for this."""
    if (journal := node.journal()) != b"null":
        return f"a change is under way: {journal[:400]!r}"
    there = should_offer(node.gpus())
    if (offered := node.offered()) != there:
        return f"offered is {_short(offered)}, there is {_short(there)}"
    if (named := node.named()) != set(there):
        return f"CDI names {sorted(named)}, there is {sorted(there)}"
    return ""


async def _undone(node: CrashNode, change: Transition) -> str:
    """Why the layout is not the one that is asked for, and said to be."""
    if await node.label() != change.config:
        return "nobody has asked for the last layout yet"
    if (said := await node.said()) != ("success", ""):
        return f"the node says {said}"
    gpus = node.gpus()
    for slot, wanted in change.wanted.items():
        if gpus[slot].wanted() != wanted:
            return f"GPU {slot} has {gpus[slot].wanted()}, wanted is {wanted}"
    return await _unfinished(node)


async def _failed_well(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> str:
    """Why it has not failed as it should, with all as it was if the driver lets go back."""
    state, reason = await node.said()
    if state != "failed":
        return f"the node says {state} {reason}"
    gpus = node.gpus()
    if change.back and any(_parts(gpus[slot]) != _parts(before[slot]) for slot in before):
        return f"it failed, and not all is as it was: {gpus}"
    return await _unfinished(node)


def _parts(gpu: Gpu) -> tuple[bool, list[tuple[int, int, tuple[int, ...]]]]:
    return gpu.enabled, gpu.parts()


def _lost(node: CrashNode, change: Transition, before: dict[int, Gpu]) -> list[str]:
    """What bystanders had and have not had all the time: what they use, and all of other GPUs."""
    gpus, gone = node.gpus(), ever_gone(node.driver.file)
    own = {*change.wanted, *change.first}
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

    Those are changes of the hardware, of files, and of the API's objects, from the journal's first byte on;
    and of the questions to the driver between any two of them, one.
    """
    seen: Counter[str] = Counter()
    found: list[Fuse] = []
    begun, asked = False, False
    for deed in trace:
        seen[deed] += 1
        begun = begun or deed == _BEGIN
        if not begun or _HARDWARE in deed:
            continue
        question = sort_of(deed) == "question"
        if not question or not asked:
            found += (Fuse(deed, seen[deed], after) for after in (False, True))
        asked = question
    return found


def sort_of(deed: str) -> str:
    """What is changed by it."""
    if deed.startswith(API):
        return "API"
    if deed.startswith(_FILES):
        return "journal" if deed.endswith(" mig") else "file"
    return "hardware" if deed in CHANGES else "question"


def chosen(among: Sequence[Fuse], number: int, chance: random.Random) -> list[Fuse]:
    """So many, of every sort as near to equally many as can be, before and after in turn; 0: all."""
    sorts: dict[tuple[bool, str], list[Fuse]] = {}
    for fuse in chance.sample(among, len(among)):
        sorts.setdefault((fuse.after, sort_of(fuse.deed)), []).append(fuse)
    queues = chance.sample([*sorts.values()], len(sorts))
    found: list[Fuse] = []
    while any(queues) and (not number or len(found) < number):
        found += (queue.pop() for queue in queues if queue)
    return found[: number or None]
