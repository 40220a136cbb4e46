"""The options that say where an operator and its agents are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import click

_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def operator_namespace_option(purpose: str) -> _Decorator:
    """`--operator-namespace`, with what is there."""
    return click.option(
        "--operator-namespace", default="gpu-operator", show_default=True, metavar="NAME", help=purpose
    )


agents_namespace_option: Final[_Decorator] = click.option(
    "--agents-namespace",
    default="tonnage-system",
    show_default=True,
    metavar="NAME",
    help="Where the agents run.",
)
