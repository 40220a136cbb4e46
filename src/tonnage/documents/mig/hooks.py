"""mig-parted's hooks and the list of GPU clients, version v1: from text to what the host does.

Source: NVIDIA/mig-parted v0.15, api/hooks/v1 and its manager's clients file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.bounds import AGENT_VALUES
from tonnage.documents.yaml.reader import parse_yaml
from tonnage.documents.yaml.source import DocumentFieldError, validate
from tonnage.model.mig.hooks import HOOKS, MigHook

_MOST: Final = 16
_MOST_ARGS: Final = 64
_LONGEST: Final = 4096
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.\\@-]{1,200}")
_KINDS: Final = (".service", ".socket", ".timer", ".target", ".path", ".mount", ".slice", ".scope")


def _version(text: str) -> str:
    if text != "v1":
        raise DocumentFieldError(
            f"unknown version: {text[:60]}" if text else "version is missing", remedy="write version: v1"
        )
    return text


def _word(text: str) -> str:
    if "\0" in text:
        raise DocumentFieldError("a NUL byte is in it")
    return text


def _command(text: str) -> str:
    if not text.strip():
        raise DocumentFieldError("no command", remedy="name a program, such as /bin/bash")
    return _word(text)


def _folder(text: str) -> str:
    if text and not text.startswith("/"):
        raise DocumentFieldError(
            f"{text[:60]!r} is not an absolute path", remedy="write a folder of the host that begins with /"
        )
    return _word(text)


def _variable(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise DocumentFieldError(
            f"{text[:60]!r} is not the name of a variable", remedy="use letters, digits and _"
        )
    return text


def _hook_name(text: str) -> str:
    if text not in HOOKS:
        raise DocumentFieldError(f"unknown hook {text[:60]}", remedy=nearest(text, [*HOOKS]))
    return text


def _unit(text: str) -> str:
    if not _UNIT.fullmatch(text) or text.startswith("-"):
        raise DocumentFieldError(
            f"{text[:60]!r} is not a systemd unit", remedy="write one such as nvidia-dcgm.service"
        )
    return text if text.endswith(_KINDS) else f"{text}.service"


_Text = Annotated[str, Field(max_length=_LONGEST), AfterValidator(_word)]
_Version = Annotated[str, AfterValidator(_version), Field(validate_default=True)]


class _Strict(BaseModel):
    """Keys as they stand, unknown ones refused, nothing converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Hook(_Strict):
    command: Annotated[str, Field(max_length=_LONGEST), AfterValidator(_command)]
    args: Annotated[tuple[_Text, ...], Field(max_length=_MOST_ARGS)] = ()
    envs: Annotated[dict[Annotated[str, AfterValidator(_variable)], _Text], Field(max_length=_MOST_ARGS)] = {}
    workdir: Annotated[str, Field(max_length=_LONGEST), AfterValidator(_folder)] = ""


class _Hooks(_Strict):
    version: _Version = ""
    hooks: dict[
        Annotated[str, AfterValidator(_hook_name)], Annotated[tuple[_Hook, ...], Field(max_length=_MOST)]
    ] = {}


class _Clients(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")
    )

    version: _Version = ""
    systemd_services: Annotated[
        tuple[Annotated[str, AfterValidator(_unit)], ...], Field(max_length=4 * _MOST)
    ] = ()


def parse_mig_hooks(text: str, *, source: str) -> Mapping[str, tuple[MigHook, ...]]:
    """Hooks by name.

    Raises:
        ConfigError: every problem at once, each with file, line and column.
    """
    document = parse_yaml(text, source=source, most_values=AGENT_VALUES)
    read = validate(document, _Hooks)
    return {
        name: tuple(
            MigHook(
                hook.command,
                hook.args,
                hook.envs,
                hook.workdir or "/",
                document.where(("hooks", name, place)),
            )
            for place, hook in enumerate(hooks)
        )
        for name, hooks in read.hooks.items()
    }


def parse_gpu_clients(text: str, *, source: str) -> tuple[str, ...]:
    """Units of systemd that use GPUs, in the order in which to stop them. Raises ConfigError as above."""
    read = validate(parse_yaml(text, source=source, most_values=AGENT_VALUES), _Clients)
    return tuple(dict.fromkeys(read.systemd_services))
