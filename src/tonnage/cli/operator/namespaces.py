"""The options that say where an operator and its agents are, and whether those namespaces exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.core import ParameterSource

from tonnage.cli.terminal.output import line, say
from tonnage.loop.refusals import or_none
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.names import is_namespace

if TYPE_CHECKING:
    from tonnage.ports.kubernetes import KubernetesReader

_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
OPERATOR_NAMESPACE: Final = "--operator-namespace"
AGENTS_NAMESPACE: Final = "--agents-namespace"
_LONGEST_SHOWN: Final = 100


def _namespace(_: click.Context, __: click.Parameter, value: str) -> str:
    if not is_namespace(value):
        raise click.BadParameter(f"{value[:_LONGEST_SHOWN]!r} is not the name of a namespace")
    return value


def operator_namespace_option(purpose: str) -> _Decorator:
    """`--operator-namespace`, with what is there."""
    return click.option(
        OPERATOR_NAMESPACE,
        default="gpu-operator",
        show_default=True,
        metavar="NAME",
        callback=_namespace,
        help=purpose,
    )


agents_namespace_option: Final[_Decorator] = click.option(
    AGENTS_NAMESPACE,
    default="tonnage-system",
    show_default=True,
    metavar="NAME",
    callback=_namespace,
    help="Where the agents run.",
)


def operator_namespaces(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Both options, for a command that shows what a policy comes to."""
    return operator_namespace_option("Where the ConfigMaps are that a ClusterPolicy names.")(
        agents_namespace_option(wrapped)
    )


def named_namespaces() -> dict[str, str]:
    """The namespaces that this command line names itself, by option; a default may be absent."""
    context = click.get_current_context()
    return {
        f"--{name.replace('_', '-')}": context.params[name]
        for name in ("operator_namespace", "agents_namespace")
        if name in context.params and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


async def require_namespaces(api: KubernetesReader, named: Mapping[str, str]) -> None:
    """Raises ConfigError: an option names a namespace that the cluster does not have.

    Somebody who may not list namespaces is believed, and told so.
    """
    if not named:
        return
    from tonnage.documents.nearest import nearest_word
    from tonnage.wire.kinds import NAMESPACE

    listing = await or_none(api.list(NAMESPACE), (HTTPStatus.FORBIDDEN,))
    if listing is None:
        options = ", ".join(f"{option} {name}" for option, name in named.items())
        say(line(f"not checked, since you may not list namespaces: {options}"), err=True)
        return
    there = sorted(namespace.metadata.name for namespace in listing.items)
    problems = [
        Problem(
            f"the namespace {name} does not exist",
            option,
            remedy=f"use {near} if you meant that" if near else "see those that there are: kubectl get ns",
        )
        for option, name in named.items()
        if name not in there
        for near in [nearest_word(name, there)]
    ]
    if problems:
        raise ConfigError(*problems)
