"""What a person chose to see, and what a key changes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tonnage.diagnose.top.columns import COLUMNS, View

_LONGEST_FILTER: Final = 60
INTERVALS_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_PAGE: Final = 10


@dataclass(frozen=True, slots=True)
class ScreenState:
    """The view, by which column it is sorted, and the part of it that is shown.

    `typing`: keys go into the filter. `paused`: what is shown stays as it is.
    """

    view: View = View.DEVICES
    sort: str = ""
    upwards: bool = False
    filter: str = ""
    typing: bool = False
    offset: int = 0
    paused: bool = False
    help: bool = False
    interval_s: float = 2.0

    @property
    def sort_head(self) -> str:
        """The column by which rows are sorted: the first where the view has not the chosen one."""
        heads = [column.head for column in COLUMNS[self.view]]
        return self.sort if self.sort in heads else heads[0]


def after_key(state: ScreenState, key: str) -> ScreenState | None:
    """The state after a key; None: leave. Keys are characters, or the names `up`, `escape`, `enter` ….

    >>> after_key(ScreenState(), "3").view, after_key(ScreenState(), "q")
    (<View.PODS: 'pods'>, None)
    """
    if state.typing:
        return _typed(state, key)
    if state.help:
        return replace(state, help=False) if key not in ("q", "ctrl-c") else None
    if key in ("q", "ctrl-c"):
        return None
    change = _CHANGES.get(key)
    return replace(state, offset=_offset(state.offset, key)) if change is None else change(state)


def _typed(state: ScreenState, key: str) -> ScreenState | None:
    match key:
        case "ctrl-c":
            return None
        case "enter":
            return replace(state, typing=False)
        case "escape":
            return replace(state, typing=False, filter="", offset=0)
        case "backspace":
            return replace(state, filter=state.filter[:-1], offset=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(state, filter=(state.filter + key)[:_LONGEST_FILTER], offset=0)
        case _:
            return state


def _sorted_by(state: ScreenState, step: int) -> ScreenState:
    heads = [column.head for column in COLUMNS[state.view]]
    return replace(state, sort=heads[(heads.index(state.sort_head) + step) % len(heads)], offset=0)


def _interval(current_s: float, *, longer: bool) -> float:
    others = [step_s for step_s in INTERVALS_S if (step_s > current_s) == longer and step_s != current_s]
    return current_s if not others else min(others) if longer else max(others)


def _offset(offset: int, key: str) -> int:
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -_PAGE, "page-down": _PAGE}
    return 0 if key in ("home", "g") else max(0, offset + steps.get(key, 0))


def _show(view: View) -> Callable[[ScreenState], ScreenState]:
    return lambda state: replace(state, view=view, offset=0)


def _next_view(state: ScreenState) -> ScreenState:
    views = [*View]
    return replace(state, view=views[(views.index(state.view) + 1) % len(views)], offset=0)


_HELP: Final = ("?", "h", "f1")
_FILTER: Final = ("/", "f4")
_PAUSE: Final = (" ", "p")
_TURN: Final = ("r", "I")
_SORT: Final = ("s", "right", "f6", ">")
_SORT_BACK: Final = ("S", "left", "<")
_CHANGES: Final[Mapping[str, Callable[[ScreenState], ScreenState]]] = MappingProxyType(
    {
        **dict.fromkeys(_HELP, lambda state: replace(state, help=True)),
        **dict.fromkeys(_FILTER, lambda state: replace(state, typing=True)),
        **dict.fromkeys(_PAUSE, lambda state: replace(state, paused=not state.paused)),
        **dict.fromkeys(_TURN, lambda state: replace(state, upwards=not state.upwards)),
        **dict.fromkeys(_SORT, lambda state: _sorted_by(state, 1)),
        **dict.fromkeys(_SORT_BACK, lambda state: _sorted_by(state, -1)),
        "escape": lambda state: replace(state, filter="", offset=0),
        "1": _show(View.NODES),
        "2": _show(View.DEVICES),
        "3": _show(View.PODS),
        "tab": _next_view,
        "+": lambda state: replace(state, interval_s=_interval(state.interval_s, longer=True)),
        "-": lambda state: replace(state, interval_s=_interval(state.interval_s, longer=False)),
    }
)
