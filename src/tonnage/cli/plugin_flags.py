"""Flags and environment variables of NVIDIA's device plugin, as `tonnage node` takes them.

What they say wins over a configuration's text: command line > environment > text > default.
Source: NVIDIA/k8s-device-plugin v0.20, cmd/nvidia-device-plugin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from tonnage.model.json import JsonValue
from tonnage.model.plugin_settings import Override

F = TypeVar("F", bound=Callable[..., Any])

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of a command that does not run in this process's own; a click context's `obj`."""

    environment: Mapping[str, str]


class EnvironmentOption(click.Option):
    """An option whose variables are those of the `Surroundings`, if there are any."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        name = self.variable(ctx)
        return None if name is None else _environment(ctx)[name]

    def variable(self, ctx: click.Context) -> str | None:
        """The first of its variables that says something."""
        names = [self.envvar] if isinstance(self.envvar, str) else self.envvar or ()
        return next((name for name in names if _environment(ctx).get(name)), None)


def _boolean(text: str) -> bool:
    """As Go reads one."""
    if text not in _TRUE | _FALSE:
        raise click.BadParameter(f"{text[:40]!r} is neither true nor false")
    return text in _TRUE


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _words(text: str) -> list[JsonValue]:
    """Words between commas."""
    return [*_split(text)]


def _numbers(text: str) -> list[JsonValue]:
    words = _split(text)
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise click.BadParameter(f"{text[:40]!r} is no list of numbers")
    return [int(word) for word in words]


@dataclass(frozen=True, slots=True)
class PluginFlag:
    """One flag: its names, its variables, and the field of the configuration that it sets."""

    names: tuple[str, ...]
    variables: tuple[str, ...]
    path: tuple[str, ...]
    read: Callable[[str], JsonValue]
    help: str
    metavar: str = ""

    @property
    def repeats(self) -> bool:
        """Whether it may be given several times, each time for a part of its value."""
        return self.read in (_words, _numbers)

    @property
    def parameter(self) -> str:
        """What click calls its value."""
        return self.names[0].lstrip("-").replace("-", "_")


def _plugin(name: str) -> tuple[str, ...]:
    return ("flags", "plugin", name)


PLUGIN_FLAGS: Final = (
    PluginFlag(
        ("--mig-strategy",),
        ("MIG_STRATEGY",),
        ("flags", "migStrategy"),
        str,
        "How MIG devices are offered.",
        "none|single|mixed",
    ),
    PluginFlag(
        ("--fail-on-init-error",),
        ("FAIL_ON_INIT_ERROR",),
        ("flags", "failOnInitError"),
        _boolean,
        "Taken for NVIDIA's sake: the agent waits for a driver, and is not ready without.",
    ),
    PluginFlag(
        ("--driver-root", "--nvidia-driver-root"),
        ("NVIDIA_DRIVER_ROOT",),
        ("flags", "nvidiaDriverRoot"),
        str,
        "The driver's root folder on the host.",
        "DIR",
    ),
    PluginFlag(
        ("--dev-root", "--nvidia-dev-root"),
        ("NVIDIA_DEV_ROOT",),
        ("flags", "nvidiaDevRoot"),
        str,
        "The folder on the host whose dev/ has the device nodes [default: the driver's root].",
        "DIR",
    ),
    PluginFlag(
        ("--driver-root-ctr-path", "--container-driver-root"),
        ("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
        _plugin("containerDriverRoot"),
        str,
        "Where the driver's root is visible to this process [default: /driver-root if it is there, else the"
        " system's library search].",
        "DIR",
    ),
    PluginFlag(
        ("--pass-device-specs",),
        ("PASS_DEVICE_SPECS",),
        _plugin("passDeviceSpecs"),
        _boolean,
        "Answer with device nodes, too.",
    ),
    PluginFlag(
        ("--device-list-strategy",),
        ("DEVICE_LIST_STRATEGY",),
        _plugin("deviceListStrategy"),
        _words,
        "How a container learns its devices: envvar, volume-mounts, cdi-annotations, cdi-cri.",
        "LIST",
    ),
    PluginFlag(
        ("--device-id-strategy",),
        ("DEVICE_ID_STRATEGY",),
        _plugin("deviceIDStrategy"),
        str,
        "What it knows them by.",
        "uuid|index",
    ),
    PluginFlag(
        ("--gdrcopy-enabled",),
        ("GDRCOPY_ENABLED",),
        ("flags", "gdrcopyEnabled"),
        _boolean,
        "Give containers GDRCopy.",
    ),
    PluginFlag(
        ("--gds-enabled",),
        ("GDS_ENABLED",),
        ("flags", "gdsEnabled"),
        _boolean,
        "Give them GPUDirect Storage.",
    ),
    PluginFlag(
        ("--mofed-enabled",), ("MOFED_ENABLED",), ("flags", "mofedEnabled"), _boolean, "Give them MOFED."
    ),
    PluginFlag(
        ("--cdi-annotation-prefix",),
        ("CDI_ANNOTATION_PREFIX",),
        _plugin("cdiAnnotationPrefix"),
        str,
        "Prefix of annotations that name CDI devices.",
        "PREFIX",
    ),
    PluginFlag(
        ("--nvidia-cdi-hook-path", "--nvidia-ctk-path"),
        ("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
        _plugin("nvidiaCTKPath"),
        str,
        "The hooks' program on the host, for CDI specs.",
        "FILE",
    ),
    PluginFlag(
        ("--cdi-feature-flags",),
        ("CDI_FEATURE_FLAGS",),
        _plugin("cdiFeatureFlags"),
        _words,
        "Features of CDI specs.",
        "LIST",
    ),
    PluginFlag(
        ("--cdi-disable-hooks",),
        ("CDI_DISABLE_HOOKS",),
        _plugin("cdiDisableHooks"),
        _words,
        "Hooks that CDI specs go without, or all.",
        "LIST",
    ),
    PluginFlag(
        ("--mps-root",),
        ("MPS_ROOT",),
        ("flags", "mpsRoot"),
        str,
        "Folder of MPS on the host.",
        "DIR",
    ),
    PluginFlag(
        ("--shared-devices-allocation-policy",),
        ("SHARED_DEVICES_ALLOCATION_POLICY",),
        _plugin("sharedDevicesAllocationPolicy"),
        str,
        "Which replicas come first: distributed, packed, spread, spread-strict.",
        "POLICY",
    ),
    PluginFlag(
        ("--device-discovery-strategy",),
        ("DEVICE_DISCOVERY_STRATEGY",),
        ("flags", "deviceDiscoveryStrategy"),
        str,
        "How devices are found.",
        "auto|nvml",
    ),
    PluginFlag(
        ("--imex-channel-ids",),
        ("IMEX_CHANNEL_IDS",),
        ("imex", "channelIDs"),
        _numbers,
        "IMEX channels of every container.",
        "0",
    ),
    PluginFlag(
        ("--imex-required",),
        ("IMEX_REQUIRED",),
        ("imex", "required"),
        _boolean,
        "Give no device without them.",
    ),
    PluginFlag(
        ("--disable-health-checks",),
        ("DP_DISABLE_HEALTHCHECKS",),
        ("health", "disable"),
        _words,
        "Xids that never count; xids for every one, all for readings, too.",
        "LIST",
    ),
    PluginFlag(
        ("--enable-health-checks",),
        ("DP_ENABLE_HEALTHCHECKS",),
        ("health", "enable"),
        _words,
        "Xids that count all the same; all for every one.",
        "LIST",
    ),
)


def plugin_options(command: F) -> F:
    """Give a command the flags; `overrides_of` says what they said. Unset flags and variables say nothing."""
    for flag in reversed(PLUGIN_FLAGS):
        boolean = flag.read is _boolean
        command = click.option(
            *flag.names,
            flag.parameter,
            cls=EnvironmentOption,
            envvar=list(flag.variables),
            callback=_reader(flag),
            is_flag=False,
            flag_value="true" if boolean else None,
            multiple=flag.repeats,
            metavar="true|false" if boolean else flag.metavar,
            help=f"{flag.help.removesuffix('.')} [env: {flag.variables[0]}].",
        )(command)
    return command


def overrides_of(context: click.Context) -> tuple[Override, ...]:
    """What flags and variables said, each with its own name."""
    options = {option.name: option for option in context.command.params}
    found: list[Override] = []
    for flag in PLUGIN_FLAGS:
        source = context.get_parameter_source(flag.parameter)
        option = options[flag.parameter]
        if source is ParameterSource.COMMANDLINE:
            where = flag.names[0]
        elif source is ParameterSource.ENVIRONMENT and isinstance(option, EnvironmentOption):
            where = option.variable(context) or flag.variables[0]
        else:
            continue
        found.append(Override(flag.path, context.params[flag.parameter], where))
    return tuple(found)


def _reader(flag: PluginFlag) -> Callable[[click.Context, click.Parameter, Any], JsonValue]:
    def read(_ctx: click.Context, _parameter: click.Parameter, given: Any) -> JsonValue:
        if flag.repeats:
            return [word for text in given for word in cast("list[JsonValue]", flag.read(text))]
        return None if given is None else flag.read(given)

    return read


def _environment(ctx: click.Context) -> Mapping[str, str]:
    return ctx.obj.environment if isinstance(ctx.obj, Surroundings) else os.environ
