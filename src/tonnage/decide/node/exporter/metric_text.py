"""Families of Tonnage's own in Prometheus' text format; a label without a value is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tonnage.decide.node.exporter.labels import escaped
from tonnage.model.metric_families import Metric, MetricKind

_ENDINGS: Final = {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}


@dataclass(frozen=True, slots=True)
class PageText:
    """A part of a page, and how many series are in it: to count them in text takes as long as writing it."""

    text: str = ""
    series: int = 0

    def __add__(self, more: PageText) -> PageText:
        return PageText(self.text + more.text, self.series + more.series)


NOTHING: Final = PageText()


def metrics_page(families: Iterable[Metric]) -> PageText:
    """As `metrics_text`, with the number of series."""
    shown = tuple(families)
    return PageText(metrics_text(shown), sum(len(family.samples) for family in shown))


def metrics_text(families: Iterable[Metric]) -> str:
    """The families that have a sample, each after its HELP and TYPE.

    >>> family = Metric(MetricKind.COUNTER, "errors", "Errors.", ("gpu", "part"), ((("0", ""), 2.5),))
    >>> print(metrics_text([family]), end="")
    # HELP errors_total Errors.
    # TYPE errors_total counter
    errors_total{gpu="0"} 2.5
    """
    return "".join(_text(family) for family in families if family.samples)


def series_in(page: str) -> int:
    """Lines of the page that are no comments."""
    return page.count("\n") - page.count("\n# ") - page.startswith("# ")


def shown_name(family: Metric) -> str:
    """The family's name with the ending of its kind."""
    return family.name + _ENDINGS.get(family.kind, "")


def _text(family: Metric) -> str:
    name = shown_name(family)
    kind = "counter" if family.kind is MetricKind.COUNTER else "gauge"
    lines = [f"# HELP {name} {family.help}\n# TYPE {name} {kind}\n"]
    for values, number in family.samples:
        labels = _label_text(family.labels, values)
        lines.append(f"{name}{{{labels}}} {number:.12g}\n" if labels else f"{name} {number:.12g}\n")
    return "".join(lines)


@lru_cache(maxsize=1024)
def _label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """What stands in braces: families of a container have the same, scrape after scrape."""
    pairs = zip(names, values, strict=True)
    return ",".join([f'{name}="{escaped(value)}"' for name, value in pairs if value])
