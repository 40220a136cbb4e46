"""The annotation `tonnage.dev/pretended-load` of a pod: a kind, then settings, in one line.

training memory=60% busy=95%
inference rate=40 service=15ms width=30% memory=8192MiB
leak rate=5 per-minute=2%
crash xid=79 after=90s
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from tonnage.documents.nearest import nearest
from tonnage.model.devices.pretended_load import LOAD_ANNOTATION, LoadKind, PretendedLoad
from tonnage.model.errors import Problem

MOST_CHARACTERS: Final = 500
_NUMBER: Final = re.compile(r"(?P<amount>[0-9]{1,9}(\.[0-9]{1,6})?)(?P<unit>[A-Za-z%/]{0,3})")
_MIB: Final[Mapping[str, float]] = MappingProxyType({"MiB": 1, "GiB": 1024, "Mi": 1, "Gi": 1024})
_SECONDS: Final[Mapping[str, float]] = MappingProxyType({"ms": 0.001, "s": 1, "m": 60, "h": 3600})
_DEFAULTS: Final[Mapping[LoadKind, PretendedLoad]] = MappingProxyType(
    {
        LoadKind.TRAINING: PretendedLoad(LoadKind.TRAINING, busy=0.94, width=0.85, memory_share=0.7),
        LoadKind.INFERENCE: PretendedLoad(
            LoadKind.INFERENCE, rate=20, service_s=0.012, width=0.3, memory_share=0.15
        ),
        LoadKind.IDLE: PretendedLoad(LoadKind.IDLE, width=0.0, memory_share=0.02),
        LoadKind.LEAK: PretendedLoad(
            LoadKind.LEAK, rate=10, service_s=0.012, width=0.3, memory_share=0.1, growth_share=0.02 / 60
        ),
        LoadKind.CRASH: PretendedLoad(
            LoadKind.CRASH, busy=0.94, width=0.85, memory_share=0.7, xid=79, after_s=60
        ),
    }
)
_MOST_RATE: Final = 1e6
_LONGEST_S: Final = 86_400.0
_SETTINGS: Final[Mapping[str, tuple[LoadKind, ...]]] = MappingProxyType(
    {
        "memory": tuple(LoadKind),
        "seed": tuple(LoadKind),
        "busy": (LoadKind.TRAINING, LoadKind.CRASH),
        "width": (LoadKind.TRAINING, LoadKind.INFERENCE, LoadKind.LEAK, LoadKind.CRASH),
        "rate": (LoadKind.INFERENCE, LoadKind.LEAK),
        "service": (LoadKind.INFERENCE, LoadKind.LEAK),
        "per-minute": (LoadKind.LEAK,),
        "xid": (LoadKind.CRASH,),
        "after": (LoadKind.CRASH,),
    }
)


def parse_load(text: str) -> PretendedLoad | Problem:
    """What the annotation says; a setting that is left out is the kind's own.

    >>> parse_load("inference rate=40 service=15ms").demand
    0.6
    >>> parse_load("trainng").remedy
    'use training if you meant that'
    """
    if len(text) > MOST_CHARACTERS:
        return _problem(f"the annotation has {len(text)} characters", f"at most {MOST_CHARACTERS} are read")
    kind_word, *settings = text.split() or [""]
    kinds = [kind.value for kind in LoadKind]
    if kind_word not in kinds:
        return _problem(f'"{kind_word[:40]}" is not a kind of load', remedy=_near(kind_word, kinds))
    kind = LoadKind(kind_word)
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if kind not in _SETTINGS.get(name, ()):
            own = [setting for setting, kinds_of in _SETTINGS.items() if kind in kinds_of]
            return _problem(f'{kind} has no setting "{name[:40]}"', remedy=_near(name, own))
        changes = _value(name, value) if equals else None
        if changes is None:
            return _problem(f'"{value[:40]}" is not a value of {name}', remedy=f"write {_EXAMPLES[name]}")
        values |= changes
    return replace(_DEFAULTS[kind], **values)


_EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "memory": "memory=8192MiB, memory=8GiB or memory=40%",
        "seed": "seed=7",
        "busy": "busy=80%",
        "width": "width=30%",
        "rate": "rate=40 (requests a second)",
        "service": "service=15ms",
        "per-minute": "per-minute=2% (of the device's memory)",
        "xid": "xid=79",
        "after": "after=90s",
    }
)


def _value(name: str, value: str) -> Mapping[str, Any] | None:
    """The fields that a setting sets; None: it has another form."""
    match = _NUMBER.fullmatch(value)
    if match is None:
        return None
    amount, unit = float(match["amount"]), match["unit"]
    share = amount / 100 if unit == "%" and amount <= 100 else None
    seconds = amount * _SECONDS.get(unit, math.inf)
    whole = int(amount) if unit == "" and amount == int(amount) else None
    match name:
        case "memory":
            in_mib = {"memory_mib": round(amount * _MIB[unit])} if unit in _MIB else None
            return in_mib if share is None else {"memory_share": share}
        case "busy" | "width":
            return None if share is None else {name: share}
        case "rate":
            return {"rate": amount} if unit in ("", "/s") and amount <= _MOST_RATE else None
        case "service":
            return {"service_s": seconds} if 0 < seconds <= _LONGEST_S else None
        case "after":
            return {"after_s": seconds} if seconds <= _LONGEST_S else None
        case "per-minute":
            return None if share is None else {"growth_share": share / 60}
        case "xid":
            return {"xid": whole} if whole and whole < 1 << 16 else None
        case _:
            return None if whole is None else {"seed": whole}


def _near(word: str, words: list[str]) -> str:
    return nearest(word, words) or f"write one of {', '.join(words)}"


def _problem(fault: str, why: str = "", remedy: str = "") -> Problem:
    return Problem(fault, LOAD_ANNOTATION, why, remedy)
