"""The options that commands share, spelt as kubectl spells them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from tonnage.adapters.snapshots.limit import MOST_BYTES, MOST_WHOLE_BYTES, OPTION, SizeLimit, size_text

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Common:
    """What a person said about where to look and how to answer."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    output: str = "text"
    snapshot: Path | None = None
    server_version: str | None = None
    verbose: bool = False
    max_size: int | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()

    @property
    def limit(self) -> SizeLimit:
        """How much a file with a cluster or a trace may come to."""
        return SizeLimit(self.max_size)


_OLDEST_MINOR: Final = 31
_NEWEST_MINOR: Final = 37


def _known_version(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """The version as given, `v1.35.2` or `1.35`, when its behaviour is known here."""
    if value is None:
        return None
    parts = value.removeprefix("v").split(".")
    valid = len(parts) in (2, 3) and all(
        part.isascii() and part.isdigit() and len(part) < 5 for part in parts
    )
    if not valid or parts[0] != "1" or not _OLDEST_MINOR <= int(parts[1]) <= _NEWEST_MINOR:
        raise click.BadParameter(
            f"{value[:20]} is unknown; Tonnage knows 1.{_OLDEST_MINOR} to 1.{_NEWEST_MINOR}"
        )
    return value


_CLUSTER: Final = (
    click.option(
        "--kubeconfig",
        type=_FILE,
        metavar="FILE",
        help="Kubeconfig file to use.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
)
_ACTING: Final = (
    click.option("--as", "as_user", metavar="USER", help="Ask the cluster as this user."),
    click.option(
        "--as-group",
        "as_groups",
        multiple=True,
        metavar="GROUP",
        help="Ask the cluster as this group, too. Repeatable.",
    ),
)
_LONGEST_WORD: Final = 100
_LARGEST_SIZE: Final = 1 << 40


class SizeOption(click.ParamType[int]):
    """Bytes, as Kubernetes writes sizes: 2Gi, 600M."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from tonnage.model.kubernetes.quantity import parse_quantity

        try:
            size = parse_quantity(str(value))
        except ValueError as error:
            self.fail(f"{str(value)[:_LONGEST_WORD]!r} is no size: {error}", param, ctx)
        if not 1 <= size <= _LARGEST_SIZE:
            self.fail(f"{str(value)[:_LONGEST_WORD]!r} is not between 1 and 1Ti", param, ctx)
        return int(size)


_MAX_SIZE: Final = (
    click.option(
        OPTION,
        type=SizeOption(),
        metavar="SIZE",
        help=f"Largest size of an input file, uncompressed "
        f"[default: {size_text(MOST_BYTES)}, {size_text(MOST_WHOLE_BYTES)} if not a snapshot].",
    ),
)
_NAMESPACE: Final = (click.option("-n", "--namespace", metavar="NAME", help="Namespace to read."),)
_SNAPSHOT: Final = (
    click.option(
        "--snapshot",
        type=_FILE,
        metavar="FILE",
        help="Read this file of tonnage snapshot, or a List of objects, instead of a cluster (- for stdin).",
    ),
    click.option(
        "--server-version",
        metavar=f"1.{_OLDEST_MINOR}..1.{_NEWEST_MINOR}",
        callback=_known_version,
        help="Kubernetes version to predict [default: the server's].",
    ),
)


class Words(click.ParamType[tuple[str, ...]]):
    """Of some words one or, with commas between, several; a tuple of them."""

    name = "words"

    def __init__(self, choices: Iterable[str]) -> None:
        self.choices = tuple(choices)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        words = value if isinstance(value, tuple) else tuple(str(value).split(","))
        for word in words:
            if word not in self.choices:
                near = get_close_matches(word[:_LONGEST_WORD], self.choices, n=1)
                hint = f"use {near[0]} if you meant that" if near else f"one of {', '.join(self.choices)}"
                self.fail(f"{word[:_LONGEST_WORD]!r} is not known: {hint}", param, ctx)
        return words


profiles_option: Final = click.option(
    "--scheduler-config",
    type=_FILE,
    metavar="FILE",
    help="Use the scheduler profiles of this KubeSchedulerConfiguration.",
)
"""Adds the option; the command gets `scheduler_config`."""
STATE_HELP: Final = "Folder of the embedded cluster [default: TONNAGE_STATE, else ~/.local/state/tonnage]."
NO_PAUSE_HELP: Final = "Do not wait for Enter before each step, as a lab on a terminal does."
_VERBOSE: Final = click.option(
    "-v", "--verbose", is_flag=True, help="Show more detail; of errors, tracebacks."
)


def examples(*lines: str) -> str:
    r"""The end of a command's help: command lines to start from, not wrapped.

    >>> examples("tonnage status").splitlines()[1:]
    ['Examples:', '  tonnage status']
    """
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def complete_lab(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of labs, for the shell."""
    from tonnage.cli.locations.labs_and_scenarios import lab_names

    return [name for name in lab_names() if name.startswith(incomplete)]


def complete_scenario(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of scenarios, for the shell."""
    from tonnage.cli.locations.labs_and_scenarios import scenario_names

    return [name for name in scenario_names() if name.startswith(incomplete)]


def common_options(
    *,
    output: tuple[str, ...] = (),
    cluster: bool = False,
    namespace: bool = False,
    snapshot: bool = False,
    max_size: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the named families of options; it receives them together as `common`."""
    options = [
        *(_CLUSTER if cluster else ()),
        *(_ACTING if cluster and (namespace or snapshot) else ()),
        *(_NAMESPACE if namespace else ()),
        *(_SNAPSHOT if snapshot else ()),
        *(_MAX_SIZE if snapshot or max_size else ()),
    ]
    if output:
        options.append(
            click.option(
                "-o",
                "--output",
                type=click.Choice(output),
                default=output[0],
                help=f"Output format [default: {output[0]}].",
            )
        )
    options.append(_VERBOSE)
    names = tuple(Common.__dataclass_fields__)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(**values: Any) -> Any:
            common_values = {name: values.pop(name) for name in names if name in values}
            return function(common=Common(**common_values), **values)

        # The help lists first what is applied last.
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorate
