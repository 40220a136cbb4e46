"""What the agent says of itself in its metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SAMPLE: Final = re.compile(r"^(tonnage_agent_[a-z_]+)(?:\{([^}\n]{0,2000})\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(text: str) -> Samples:
    """The agent's metrics by name and labels.

    >>> samples_of('tonnage_agent_ready 1.0')
    {('tonnage_agent_ready', frozenset()): 1.0}
    """
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        try:
            samples[name, frozenset(_LABEL.findall(labels))] = float(value)
        except ValueError:
            continue
    return samples
