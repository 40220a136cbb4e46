"""The section `health` of a device-plugin configuration, which is Tonnage's own.

Its `disable` and `enable` mean what NVIDIA's plugin reads from DP_DISABLE_HEALTHCHECKS and
DP_ENABLE_HEALTHCHECKS, whose values stand there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from pydantic import Field, field_validator

from tonnage.documents.durations import seconds_of
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.source import Document, DocumentFieldError
from tonnage.model.catalog.xids import xids
from tonnage.model.devices.health import FaultClass, HealthPolicy, Signal
from tonnage.model.whole_numbers import whole_number

_ALL: Final = "all"
_XIDS: Final = "xids"
_MOST: Final = 1024
_LARGEST: Final = (1 << 16) - 1
_DEFAULT: Final = HealthPolicy()

Words = Annotated[list[int | str], Field(max_length=_MOST)]


class Health(Document):
    """Which errors and readings take a device out of scheduling, and for how long."""

    disable: Words = Field(default_factory=list)
    enable: Words = Field(default_factory=list)
    ignore: list[str] = Field(default_factory=list)
    xids: Annotated[dict[str, str], Field(max_length=_MOST)] = Field(default_factory=dict)
    steady_for: str | int = f"{_DEFAULT.steady_s:g}s"
    recover_after: str | int = f"{_DEFAULT.recover_after_s:g}s"

    @field_validator("disable", "enable")
    @classmethod
    def _words(cls, value: list[int | str]) -> list[int | str]:
        for word in value:
            text = str(word).strip().lower()
            if text not in (_ALL, _XIDS) and _code(text) is None:
                raise DocumentFieldError(
                    f"{text[:60]!r} is not an Xid", remedy="write numbers such as 79; or all, or xids"
                )
        return value

    @field_validator("ignore")
    @classmethod
    def _signals(cls, value: list[str]) -> list[str]:
        signals = [signal.value for signal in Signal]
        for word in value:
            if word not in signals:
                raise DocumentFieldError(f"{word[:60]!r} is not a signal", remedy=nearest(word, signals))
        return value

    @field_validator("xids")
    @classmethod
    def _classes(cls, value: dict[str, str]) -> dict[str, str]:
        class_names = [fault_class.value for fault_class in FaultClass]
        for code, word in value.items():
            if _code(code) is None:
                raise DocumentFieldError(
                    f"{code[:60]!r} is not an Xid", remedy="write its number, such as 79"
                )
            if word not in class_names:
                raise DocumentFieldError(
                    f"Xid {code}: {word[:60]!r} is not a class", remedy=nearest(word, class_names)
                )
        return value

    @field_validator("steady_for", "recover_after")
    @classmethod
    def _durations(cls, value: str | int) -> str | int:
        try:
            seconds = seconds_of(value)
        except ValueError as error:
            raise DocumentFieldError(str(error), remedy="write 5s or 10m") from None
        if seconds is None:
            remedy = "for an Xid after which only a reboot helps, write its class under xids"
            raise DocumentFieldError(
                "the time after which a device is used again must be finite", remedy=remedy
            )
        return value


def health_policy(document: Health) -> HealthPolicy:
    """What the section decides. `enable` wins over `disable`, which wins over `xids`, as with NVIDIA."""
    off, on = _meant(document.disable), _meant(document.enable)
    signals = frozenset(Signal) - {Signal(word) for word in document.ignore}
    if _ALL in off:
        signals = frozenset()
    if _XIDS in off:
        signals -= {Signal.XID}
    every = bool(on & {_ALL, _XIDS})
    if every:
        signals |= {Signal.XID}
    site = {int(code): FaultClass(word) for code, word in document.xids.items()}
    classes = dict(site)
    if not every:
        classes |= dict.fromkeys(_codes(off), FaultClass.APPLICATION)
    for code in _codes(on):
        classes[code] = _counted(code, site)
    return HealthPolicy(
        signals, classes, every, _seconds(document.steady_for), _seconds(document.recover_after)
    )


def _counted(code: int, site: dict[int, FaultClass]) -> FaultClass:
    """The class of an Xid that counts: its own, if that takes a device out."""
    listed = xids().get(code)
    own = site.get(code, listed.fault_class if listed else FaultClass.RESET)
    return FaultClass.RESET if own.harmless else own


def _meant(words: Iterable[int | str]) -> frozenset[str]:
    return frozenset(str(word).strip().lower() for word in words)


def _codes(words: Iterable[str]) -> Iterator[int]:
    """The words that are numbers."""
    return (code for code in map(whole_number, words) if code is not None)


def _code(text: str) -> int | None:
    """The number of an Xid; None for anything else."""
    plain = text.isascii() and text.isdigit() and len(text) <= 5
    return int(text) if plain and 0 < int(text) <= _LARGEST else None


def _seconds(text: str | int) -> float:
    seconds = seconds_of(text)
    assert seconds is not None
    return seconds
