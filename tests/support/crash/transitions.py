"""Changes of a node's MIG layout, of every kind that there is, chosen by a seed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle
from typing import Final

from support.nvml.state import SWITCH, FakeGpu, FakeLink, FakeMig, Rule
from tonnage.model.catalog.mig import mig_model
from tonnage.model.mig.geometry import Spot, all_layouts

CONFIG: Final = "wanted"
FIRST: Final = "first"
_PRODUCTS: Final = {"A100-80": "NVIDIA A100-SXM4-80GB", "H100-80": "NVIDIA H100 80GB HBM3"}
SHORT: Final = {
    "1g.10gb": "1g",
    "1g.10gb+me": "1g+me",
    "1g.20gb": "1g.double",
    "2g.20gb": "2g",
    "3g.40gb": "3g",
    "4g.40gb": "4g",
    "7g.80gb": "7g",
}
"""Profiles of GPUs with 80 GB, as the pretended driver's words have them."""
CREATE: Final = "nvmlDeviceCreateGpuInstanceWithPlacement"
DESTROY: Final = "nvmlGpuInstanceDestroy"
CREATE_PART: Final = "nvmlGpuInstanceCreateComputeInstance"
DESTROY_PART: Final = "nvmlComputeInstanceDestroy"
MODE: Final = "nvmlDeviceSetMigMode"
Wanted = Mapping[int, "Counter[str] | None"]
"""By slot the names of the MIG devices; None: a whole GPU. Other GPUs are as they were."""
Place = tuple[int, int]
"""The slot of a GPU and the id of a GPU instance."""


@dataclass(frozen=True, slots=True)
class Transition:
    """GPUs with a layout, and the one that their node's label asks for.

    `stays` are held by containers and may stay; `leaves` are held and must go: their pods end once they are
    named, or once they are evicted (`evict`). `pauses`: the node is cordoned and NVIDIA's operands leave.
    `rules` are what the driver refuses until the node says that it failed, and with `links` it refuses a
    reset. `along` are slots that are reset with others. `first` is asked for before, and no more once that
    is begun. `config` names a layout of `wanted`, or one that is made for each board. `host`: hooks run and a
    service stands still meanwhile; `picky`: until the node says that it failed, one of the hooks refuses.
    `withdrawn`: once it is begun the label is taken away; it is made or not made, and nothing is said of it.
    """

    kind: str
    gpus: tuple[FakeGpu, ...]
    wanted: Wanted
    stays: tuple[Place, ...] = ()
    leaves: tuple[Place, ...] = ()
    evict: bool = False
    pauses: bool = False
    rules: tuple[Rule, ...] = ()
    links: tuple[FakeLink, ...] = ()
    along: tuple[int, ...] = ()
    host: bool = False
    picky: bool = False
    withdrawn: bool = False
    first: Wanted = field(default_factory=dict)
    config: str = CONFIG
    back: bool = True
    """Whether the driver lets go back."""

    @property
    def refused(self) -> bool:
        """Whether it fails at first."""
        return bool(self.rules or self.links or self.picky)

    def text(self) -> str:
        """The configuration in mig-parted's words."""
        layouts = {CONFIG: _entries(self.wanted)} | ({FIRST: _entries(self.first)} if self.first else {})
        return json.dumps({"version": "v1", "mig-configs": layouts})


def _entries(wanted: Wanted) -> list[dict[str, object]]:
    return [
        {"devices": [slot], "mig-enabled": names is not None, "mig-devices": dict(names or {})}
        for slot, names in wanted.items()
    ]


def transitions(seed: int, number: int, *, root: bool = False) -> tuple[Transition, ...]:
    """So many, every kind in turn; with `root` also those that run programs of the host."""
    chance = random.Random(seed)
    kinds = (*KINDS, *HOST_KINDS) if root else KINDS
    return tuple(make(chance) for _, make in zip(range(number), cycle(kinds), strict=False))


@cache
def _layouts(model: str) -> tuple[tuple[Spot, ...], ...]:
    board = mig_model(_PRODUCTS[model])
    assert board is not None
    return tuple(all_layouts(board, full=True))


def _gpu(slot: int, model: str, layout: Iterable[Spot], *, split: bool = False) -> FakeGpu:
    """Divided so; `split`: what has more than one slice into parts of one."""
    migs: list[FakeMig] = []
    for gi, (name, start) in enumerate(layout, start=1):
        slices = int(name[0])
        parts = range(slices) if split and slices > 1 else (0,)
        of = 1 if split and slices > 1 else 0
        migs += (FakeMig(SHORT[name], start, gi, part, of) for part in parts)
    return FakeGpu(slot, model, f"GPU-{slot}", mig_enabled=True, migs=tuple(migs))


def _names(layout: Iterable[Spot], *, split: bool = False) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, _ in layout:
        slices = int(name[0])
        if split and slices > 1:
            found[f"1c.{name}"] += slices
        else:
            found[name] += 1
    return found


def _some(chance: random.Random, layout: Sequence[Spot]) -> tuple[Spot, ...]:
    """One or more of them."""
    chosen = chance.sample(range(len(layout)), chance.randint(1, len(layout)))
    return tuple(layout[place] for place in sorted(chosen))


def _model(chance: random.Random) -> str:
    return chance.choice([*_PRODUCTS])


def _bystander(chance: random.Random, slot: int) -> FakeGpu:
    model = _model(chance)
    return _gpu(slot, model, _some(chance, chance.choice(_layouts(model))))


def _two(chance: random.Random, model: str) -> tuple[tuple[Spot, ...], tuple[Spot, ...]]:
    """Layouts each of which has something that the other has not."""
    one, other = chance.sample(_layouts(model), 2)
    while _names(one) <= _names(other) or _names(other) <= _names(one):
        one, other = chance.sample(_layouts(model), 2)
    return one, other


def _anew(chance: random.Random) -> Transition:
    """One layout into another, beside a GPU that a container uses."""
    model = _model(chance)
    one, other = _two(chance, model)
    gpus = (_gpu(0, model, one), _bystander(chance, 1))
    return Transition("anew", gpus, {0: _names(other)}, stays=((1, 1),))


def _beside(chance: random.Random) -> Transition:
    """An instance that a container uses stays where it is, on the GPU that is changed."""
    model = _model(chance)
    one = chance.choice([each for each in _layouts(model) if len(each) > 1])
    place = chance.randrange(len(one))
    others = [each for each in _layouts(model) if one[place] in each and _names(each) != _names(one)]
    if not others:
        return _beside(chance)
    wanted = {0: _names(chance.choice(others))}
    return Transition("beside", (_gpu(0, model, one), _bystander(chance, 1)), wanted, stays=((0, place + 1),))


def _out_of_nothing(chance: random.Random) -> Transition:
    model = _model(chance)
    made = _some(chance, chance.choice(_layouts(model)))
    gpus = (_gpu(0, model, ()), _bystander(chance, 1))
    return Transition("out of nothing", gpus, {0: _names(made)}, stays=((1, 1),))


def _down_to_nothing(chance: random.Random) -> Transition:
    return replace(_anew(chance), kind="down to nothing", wanted={0: Counter()})


def _turned_on(chance: random.Random) -> Transition:
    made = _names(_some(chance, chance.choice(_layouts("H100-80"))))
    whole = FakeGpu(0, "H100-80", "GPU-0")
    return Transition("MIG on", (whole, _bystander(chance, 1)), {0: made}, stays=((1, 1),))


def _turned_on_by_reset(chance: random.Random) -> Transition:
    made = _names(_some(chance, chance.choice(_layouts("A100-80"))))
    other = _gpu(1, "H100-80", _some(chance, chance.choice(_layouts("H100-80"))))
    whole = FakeGpu(0, "A100-80", "GPU-0")
    return Transition("MIG on by a reset", (whole, other), {0: made}, stays=((1, 1),))


def _turned_on_by_reset_of_a_board(chance: random.Random) -> Transition:
    """Two GPUs of one board, which are reset together."""
    wanted = {slot: _names(_some(chance, chance.choice(_layouts("A100-80")))) for slot in (0, 1)}
    gpus = tuple(FakeGpu(slot, "A100-80", f"GPU-{slot}") for slot in wanted)
    return Transition("MIG on by a board's reset", gpus, wanted)


def _turned_off(chance: random.Random) -> Transition:
    gpu = _gpu(0, "H100-80", chance.choice(_layouts("H100-80")))
    return Transition("MIG off", (gpu, _bystander(chance, 1)), {0: None}, stays=((1, 1),))


def _split(chance: random.Random) -> Transition:
    model = _model(chance)
    one, other = _two(chance, model)
    gpus = (_gpu(0, model, one), _bystander(chance, 1))
    return Transition("into split parts", gpus, {0: _names(other, split=True)}, stays=((1, 1),))


def _joined(chance: random.Random) -> Transition:
    model = _model(chance)
    one, other = _two(chance, model)
    gpus = (_gpu(0, model, one, split=True), _bystander(chance, 1))
    return Transition("out of split parts", gpus, {0: _names(other)}, stays=((1, 1),))


def _several(chance: random.Random) -> Transition:
    """Two GPUs of different boards, and a third that stays."""
    (one, two), (three, four) = _two(chance, "A100-80"), _two(chance, "H100-80")
    gpus = (_gpu(0, "A100-80", one), _gpu(1, "H100-80", three), _bystander(chance, 2))
    return Transition("two GPUs", gpus, {0: _names(two), 1: _names(four)}, stays=((2, 1),))


def _by_name(chance: random.Random) -> Transition:
    """A layout that is made for the board, for every GPU."""
    model = _model(chance)
    name, made = chance.choice([
        ("all-1g.10gb", Counter({"1g.10gb": 7})), ("all-2g.20gb", Counter({"2g.20gb": 3})),
        ("all-3g.40gb", Counter({"3g.40gb": 2})), ("all-7g.80gb", Counter({"7g.80gb": 1})),
        ("all-balanced", Counter({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})),
    ])  # fmt: skip
    layouts = [each for each in _layouts(model) if _names(each) != made]
    gpus = tuple(_gpu(slot, model, chance.choice(layouts)) for slot in (0, 1))
    return Transition("by a layout's name", gpus, {0: made, 1: made}, config=name)


def _refused(kind: str, *calls: str, back: bool = True) -> Callable[[random.Random], Transition]:
    """The driver does not do one thing, on that GPU."""

    def make(chance: random.Random) -> Transition:
        change = _anew(chance)
        rules = tuple(Rule("error", call, 0, 999) for call in calls)
        return replace(change, kind=kind, rules=rules, back=back)

    return make


def _refused_mode(chance: random.Random) -> Transition:
    change = _turned_on(chance)
    return replace(change, kind="mode refused", rules=(Rule("error", MODE, 0, 999),))


def _refused_after_mode(chance: random.Random) -> Transition:
    change = _turned_on(chance)
    return replace(change, kind="MIG on, then refused", rules=(Rule("error", CREATE, 0, 999),))


def _held(chance: random.Random, *, evict: bool = False) -> Transition:
    """Containers use what must go; another uses what may stay."""
    change = _anew(chance)
    lost = [each.gi for each in change.gpus[0].migs]
    wanted: dict[int, Counter[str] | None] = {0: Counter()}
    kind = "evicted" if evict else "waited for"
    gis = sorted(chance.sample(lost, min(len(lost), 2)))
    return replace(change, kind=kind, wanted=wanted, leaves=tuple((0, gi) for gi in gis), evict=evict)


def _evicted(chance: random.Random) -> Transition:
    return _held(chance, evict=True)


def _paused(make: Callable[[random.Random], Transition], kind: str) -> Callable[[random.Random], Transition]:
    """The same, with the node paused for it."""
    return lambda chance: replace(make(chance), kind=kind, pauses=True)


def _on_host(
    make: Callable[[random.Random], Transition], kind: str, *, picky: bool = False
) -> Callable[[random.Random], Transition]:
    """The same, with work for the host."""
    return lambda chance: replace(make(chance), kind=kind, host=True, picky=picky)


def _reset_along(chance: random.Random) -> Transition:
    """An A100 takes MIG by a reset, and another one is reset along with it, and has again what it had."""
    made = _names(_some(chance, chance.choice(_layouts("A100-80"))))
    along = _gpu(1, "A100-80", _some(chance, chance.choice(_layouts("A100-80"))))
    other = _gpu(2, "H100-80", _some(chance, chance.choice(_layouts("H100-80"))))
    gpus = (FakeGpu(0, "A100-80", "GPU-0"), along, other)
    return Transition("another one reset along", gpus, {0: made}, stays=((2, 1),), along=(1,))


def _turned_off_by_reset(chance: random.Random) -> Transition:
    change = _reset_along(chance)
    gpus = (_gpu(0, "A100-80", chance.choice(_layouts("A100-80"))), *change.gpus[1:])
    return replace(change, kind="MIG off by a reset", gpus=gpus, wanted={0: None})


def _reset_refused(chance: random.Random) -> Transition:
    """The driver finds other GPUs behind the same switches."""
    links = tuple(FakeLink(slot, 0, SWITCH) for slot in (0, 1, 2))
    return replace(_reset_along(chance), kind="reset refused", links=links)


def _other_wish(chance: random.Random) -> Transition:
    """The label says something else as soon as the first change is begun."""
    change = _anew(chance)
    model = change.gpus[0].model
    last = _names(chance.choice(_layouts(model)))
    return replace(change, kind="another wish", first=change.wanted, wanted={0: last})


def _withdrawn(chance: random.Random) -> Transition:
    return replace(_beside(chance), kind="label withdrawn", withdrawn=True)


KINDS: Final[tuple[Callable[[random.Random], Transition], ...]] = (
    *(_anew, _beside, _out_of_nothing, _down_to_nothing, _turned_on, _turned_off, _split, _joined, _several),
    *(
        _turned_on_by_reset,
        _turned_on_by_reset_of_a_board,
        _by_name,
        _held,
        _evicted,
        _other_wish,
        _refused_mode,
        _refused_after_mode,
    ),
    *(_reset_along, _turned_off_by_reset, _reset_refused, _paused(_evicted, "evicted, paused")),
    *(_paused(_anew, "anew, paused"), _paused(_refused("", CREATE), "create refused, paused")),
    _refused("create refused", CREATE),
    _refused("destroy refused", DESTROY),
    _refused("part's create refused", CREATE_PART),
    _refused("part's destroy refused", DESTROY_PART),
    _refused("refused, and no way back", CREATE, CREATE_PART, back=False),
    _withdrawn,
)
HOST_KINDS: Final = (
    _on_host(_anew, "host's service stopped"),
    _on_host(_reset_along, "host's service stopped, and a reset"),
    _on_host(_refused("", CREATE), "host's service stopped, create refused"),
    _on_host(_anew, "host's hook refuses", picky=True),
)
"""Only root can run programs below another root folder."""
