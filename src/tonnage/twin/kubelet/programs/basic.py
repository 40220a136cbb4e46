"""Small commands that every pretended image has. They know the container's environment and its files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.hostnames import hostname_of, whole_hostname_of
from tonnage.twin.kubelet.programs.gpus import device_nodes

_PLAIN_DEVICES: Final = (
    *("core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout"),
    *("termination-log", "tty", "urandom", "zero"),
)
_UNITS: Final = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
_INPUT_LIMIT: Final = 1 << 20
_LONGEST_FORM: Final = 1000


async def read_all(context: ContainerContext, most: int = _INPUT_LIMIT) -> bytes:
    """Standard input to its end, or so many bytes of it (and the rest of their last piece)."""
    pieces: list[bytes] = []
    size = 0
    while size < most and (piece := await context.stdio.read()):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def say(context: ContainerContext, text: str) -> None:
    """Write a line to standard output."""
    context.stdio.write(f"{text}\n".encode())


def complain(context: ContainerContext, text: str) -> int:
    """Write a line to standard error, named after the command, and return exit code 1."""
    context.stdio.write_error(f"{context.argv[0]}: {text}\n".encode())
    return 1


async def pretend(context: ContainerContext, why: str = "") -> int:
    """Stay up doing nothing, and say so once, and `why`: the twin does not run this command.

    What others wait for, the pod's init container, is done with it at once.
    """
    context.serving.set()
    command = " ".join(context.argv) or f"the server of image {context.container.image}"
    shown = command if len(command) <= 200 else command[:199] + "…"
    reason = f" ({why})" if why else ""
    say(context, f"pretended by the twin, not run: {' '.join(shown.split())}{reason}")
    while not _is_waited_for(context):
        await context.clock.sleep(86400 * 365)
    return 0


def _is_waited_for(context: ContainerContext) -> bool:
    return (
        context.container in context.pod.spec.init_containers and context.container.restart_policy != "Always"
    )


def seconds_of(text: str) -> float | None:
    """Seconds of a `sleep` argument such as `1.5`, `2m`, `infinity`; None when it is none."""
    if text in {"infinity", "inf"}:
        return float(86400 * 365 * 100)
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)", text)
    return float(match[1]) * _UNITS[match[2] or "s"] if match else None


async def sleep(context: ContainerContext) -> int:
    if len(context.argv) < 2:
        return complain(context, "missing operand")
    total = 0.0
    for text in context.argv[1:]:
        seconds = seconds_of(text)
        if seconds is None:
            return complain(context, f"invalid time interval ‘{text}’")
        total += seconds
    await context.clock.sleep(total)
    return 0


async def _true(context: ContainerContext) -> int:
    del context
    return 0


async def _false(context: ContainerContext) -> int:
    del context
    return 1


async def echo(context: ContainerContext) -> int:
    words = list(context.argv[1:])
    end, escapes = "\n", False
    while words and words[0] in {"-n", "-e", "-ne", "-en"}:
        option = words.pop(0)
        end = "" if "n" in option else end
        escapes = escapes or "e" in option
    text = " ".join(words)
    context.stdio.write(((_unescape(text) if escapes else text) + end).encode())
    return 0


def _unescape(text: str) -> str:
    table = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "0": "\0"}
    return re.sub(r"\\([ntr\\ab0])", lambda match: table[match[1]], text)


async def env(context: ContainerContext) -> int:
    for name, value in sorted(context.env.items()):
        say(context, f"{name}={value}")
    return 0


async def printenv(context: ContainerContext) -> int:
    if len(context.argv) == 1:
        return await env(context)
    for name in context.argv[1:]:
        if name in context.env:
            say(context, context.env[name])
    return 0 if all(name in context.env for name in context.argv[1:]) else 1


async def hostname(context: ContainerContext) -> int:
    whole = any(word in ("-f", "--fqdn") for word in context.argv[1:])
    say(context, whole_hostname_of(context.pod) if whole else hostname_of(context.pod))
    return 0


async def ls(context: ContainerContext) -> int:
    """Files, `/dev` with the device nodes that were injected, and what was mounted with them."""
    nodes = await _nodes(context)
    long = any(word.startswith("-") and "l" in word for word in context.argv[1:])
    code = 0
    for path in [word for word in context.argv[1:] if not word.startswith("-")] or ["."]:
        name = path.rstrip("/") or "/"
        if (inside := await names_in(context, name, nodes)) is not None:
            lines = inside
        elif matching := await matches(context, name, nodes):
            lines = matching
        elif _is_file(context, name, nodes) or await context.files.read(path) is not None:
            lines = [path]
        else:
            context.stdio.write_error(f"ls: cannot access '{path}': No such file or directory\n".encode())
            code = 2
            continue
        folder = name if inside is not None else ""
        for line in lines:
            say(context, _long_form(context, folder, line) if long else line)
    return code


def _is_file(context: ContainerContext, name: str, nodes: set[str]) -> bool:
    return name in context.injection.mounts or (name.startswith("/dev/") and name[5:] in nodes)


async def _nodes(context: ContainerContext) -> set[str]:
    return {*_PLAIN_DEVICES, *(node.removeprefix("/dev/") for node in await device_nodes(context))}


async def names_in(context: ContainerContext, folder: str, nodes: set[str] | None = None) -> list[str] | None:
    """What a folder holds; None where there is no such folder."""
    dev_nodes = await _nodes(context) if nodes is None else nodes
    before = f"{folder.rstrip('/')}/"
    paths = [f"/dev/{node}" for node in dev_nodes] + [*context.injection.mounts]
    inside = {path[len(before) :].split("/")[0] for path in paths if path.startswith(before)}
    files = await context.files.names(folder)
    if not inside and files is None:
        return None
    return sorted({*inside, *(files or ())})


async def matches(context: ContainerContext, pattern: str, nodes: set[str] | None = None) -> list[str]:
    """The paths of a pattern with stars in its last part, none where there is none."""
    folder, slash, last = pattern.rpartition("/")
    if "*" not in last or "*" in folder:
        return []
    names = await names_in(context, folder or (slash or "."), nodes) or []
    import re2

    form = re2.escape(last).replace(r"\*", ".*")  # RE2, for which many stars are no more work
    hidden = last.startswith(".")
    return [
        f"{folder}{slash}{name}"
        for name in names
        if (hidden or not name.startswith(".")) and re2.fullmatch(form, name)
    ]


_CONTROL_NUMBERS: Final = MappingProxyType(
    {"nvidiactl": "195, 255", "nvidia-uvm": "510,   0", "nvidia-uvm-tools": "510,   1"}
)


def _long_form(context: ContainerContext, folder: str, line: str) -> str:
    """As `ls -l` shows the driver's nodes; of anything else the twin knows the name alone."""
    name = line.rpartition("/")[2]
    minor = re.fullmatch(r"nvidia([0-9]{1,4})", name)
    numbers = f"195, {minor[1]:>3}" if minor else _CONTROL_NUMBERS.get(name)
    if numbers is None or not f"{folder}/{line}".lstrip("/").startswith("dev/"):
        return line
    return f"crw-rw-rw- 1 root root {numbers} {context.clock.now():%b %e %H:%M} {line}"


async def date(context: ContainerContext) -> int:
    now = context.clock.now()
    form = next((word[1:] for word in context.argv[1:] if word.startswith("+")), "")
    if len(form) > _LONGEST_FORM or not form.isprintable():
        return complain(context, "the twin does not know this format")
    say(
        context,
        str(int(now.timestamp())) if form == "%s" else now.strftime(form or "%a %b %e %H:%M:%S UTC %Y"),
    )
    return 0


async def seq(context: ContainerContext) -> int:
    if not all(re.fullmatch(r"-?[0-9]{1,18}", word) for word in context.argv[1:4]):
        return complain(context, "invalid argument")
    numbers = [int(word) for word in context.argv[1:4]]
    first, step, last = {1: (1, 1, *numbers), 2: (numbers[0], 1, numbers[-1])}.get(len(numbers), (1, 1, 0))
    if len(numbers) == 3:
        first, step, last = numbers
    for count, number in enumerate(range(first, last + (1 if step > 0 else -1), step or 1)):
        if count >= 100_000:
            break
        say(context, str(number))
        if count % 1000 == 999:
            await asyncio.sleep(0)
    return 0


async def pwd(context: ContainerContext) -> int:
    say(context, "/")
    return 0


COMMANDS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "sleep": sleep,
        "true": _true,
        "false": _false,
        "echo": echo,
        "env": env,
        "printenv": printenv,
        "hostname": hostname,
        "ls": ls,
        "date": date,
        "seq": seq,
        "pwd": pwd,
    }
)
