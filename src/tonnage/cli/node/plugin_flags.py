"""NVIDIA's flags and environment variables as options of `tonnage node`.

What they say wins over a configuration's text: command line > environment > text > default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from tonnage.cli.node.nvidia_flags import PLUGIN_FLAGS, REFUSED_EXPORTER_FLAGS, REFUSED_FLAGS, PluginFlag
from tonnage.model.json import JsonValue
from tonnage.model.node.plugin_settings import Override

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """The environment of a command that does not run in this process's own; a click context's `obj`."""

    environment: Mapping[str, str]


class EnvironmentOption(click.Option):
    """An option whose variables are those of the `CommandEnvironment`, if there are any."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        name = self.variable(ctx)
        return None if name is None else _environment(ctx)[name]

    def variable(self, ctx: click.Context) -> str | None:
        """The first of its variables that says something."""
        names = [self.envvar] if isinstance(self.envvar, str) else self.envvar or ()
        return next((name for name in names if _environment(ctx).get(name)), None)


def plugin_options(command: F) -> F:
    """Give a command the flags; `overrides_of` says what they said. Unset flags and variables say nothing."""
    for refused in reversed((*REFUSED_FLAGS, *REFUSED_EXPORTER_FLAGS)):
        if refused.flag:
            command = click.option(*refused.names, hidden=True, is_flag=False, flag_value="")(command)
    for flag in reversed(PLUGIN_FLAGS):
        command = click.option(
            *flag.names,
            flag.parameter,
            cls=EnvironmentOption,
            envvar=list(flag.variables),
            callback=_reader(flag),
            is_flag=False,
            flag_value="true" if flag.switches else None,
            multiple=flag.repeats,
            metavar="true|false" if flag.switches else flag.metavar,
            help=f"{flag.help.removesuffix('.')} [env: {flag.variables[0]}].",
        )(command)
    return command


def refuse_without_effect(context: click.Context) -> None:
    """See that nothing was said that would be ignored.

    Raises click.UsageError: flags and variables without effect here, all of them, or two that contradict.
    """
    variables, wrong = _environment(context), list[str]()
    for refused in (*REFUSED_FLAGS, *REFUSED_EXPORTER_FLAGS):
        if refused.flag and context.params[refused.flag.lstrip("-").replace("-", "_")] is not None:
            wrong.append(f"{refused.flag} has no effect here: {refused.remedy}")
        if (
            refused.variable
            and variables.get(refused.variable)
            and variables[refused.variable] not in refused.harmless
        ):
            wrong.append(f"{refused.variable} has no effect here: {refused.remedy}")
    for flag in PLUGIN_FLAGS:
        if context.get_parameter_source(flag.parameter) is not ParameterSource.ENVIRONMENT:
            continue
        own, *others = [name for name in flag.variables if variables.get(name)]
        wrong += [
            f"{own} and {name} differ: the agent is device plugin and feature discovery at once, keep one"
            for name in others
            if name.startswith("GFD_") != own.startswith("GFD_") and variables[name] != variables[own]
        ]
    if wrong:
        raise click.UsageError("\n".join(wrong), context)


def overrides_of(context: click.Context) -> tuple[Override, ...]:
    """What flags and variables said, each with its own name."""
    options = {option.name: option for option in context.command.params}
    overrides: list[Override] = []
    for flag in PLUGIN_FLAGS:
        source = context.get_parameter_source(flag.parameter)
        option = options[flag.parameter]
        if source is ParameterSource.COMMANDLINE:
            where = flag.names[0]
        elif source is ParameterSource.ENVIRONMENT and isinstance(option, EnvironmentOption):
            where = option.variable(context) or flag.variables[0]
        else:
            continue
        overrides.append(Override(flag.path, context.params[flag.parameter], where))
    return tuple(overrides)


def _reader(flag: PluginFlag) -> Callable[[click.Context, click.Parameter, Any], JsonValue]:
    def read(_ctx: click.Context, _parameter: click.Parameter, typed: Any) -> JsonValue:
        if flag.repeats:
            return [word for text in typed for word in cast("list[JsonValue]", flag.read(text))]
        return None if typed is None else flag.read(typed)

    return read


def _environment(ctx: click.Context) -> Mapping[str, str]:
    return ctx.obj.environment if isinstance(ctx.obj, CommandEnvironment) else os.environ
