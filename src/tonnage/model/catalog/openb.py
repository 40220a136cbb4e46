"""What was published of the trace openb, out of `openb.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def published(workload: str) -> Mapping[str, Mapping[int, float]]:
    """Percent of the GPUs that are allocated, by policy and percent that have arrived; read once.

    Empty for a workload of which nothing was published.

    >>> published("default")["FGD"][130], published("mine")
    (95.39, {})
    """
    text = resources.files(__package__).joinpath("openb.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text).get(workload, {})
    return {
        policy: {int(arrived): value for arrived, value in cells.items()} for policy, cells in table.items()
    }
