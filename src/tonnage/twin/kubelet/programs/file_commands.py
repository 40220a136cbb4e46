"""Commands that read and write a pretended container's files."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tonnage.twin.kubelet.containers.files import LIMIT_BYTES, FileError
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.programs.basic import complain, read_all

_MARGIN: Final = 1 << 20
"""What an archive has beside the bytes of its files."""


def _words(context: ContainerContext) -> tuple[str, list[str]]:
    """Letters of the options, and the other words."""
    words = context.argv[1:]
    options = "".join(word[1:] for word in words if word.startswith("-") and len(word) > 1)
    return options, [word for word in words if not word.startswith("-") or word == "-"]


async def cat(context: ContainerContext) -> int:
    code = 0
    for name in _words(context)[1] or ["-"]:
        if name == "-":
            while piece := await context.stdio.read():
                context.stdio.write(piece)
        elif (content := await context.files.read(name)) is not None:
            context.stdio.write(content)
        else:
            folder = await context.files.names(name) is not None
            code = complain(context, f"{name}: {'Is a directory' if folder else 'No such file or directory'}")
    return code


async def touch(context: ContainerContext) -> int:
    code = 0
    for name in _words(context)[1]:
        try:
            if await context.files.names(name) is None:
                await context.files.write(name, b"", append=True)
        except FileError as error:
            code = complain(context, f"cannot touch '{name}': {error}")
    return code


async def rm(context: ContainerContext) -> int:
    options, names = _words(context)
    code = 0
    for name in names:
        try:
            if await context.files.names(name) is not None and not set(options) & {"r", "R"}:
                code = complain(context, f"cannot remove '{name}': Is a directory")
            elif not await context.files.remove(name) and "f" not in options:
                code = complain(context, f"cannot remove '{name}': No such file or directory")
        except FileError as error:
            code = complain(context, f"cannot remove '{name}': {error}")
    return code


async def mkdir(context: ContainerContext) -> int:
    options, names = _words(context)
    code = 0
    for name in names:
        try:
            if "p" not in options and await context.files.names(name) is not None:
                raise FileError("File exists")
            above = posixpath.dirname(f"/{name.rstrip('/')}")
            if "p" not in options and await context.files.names(above) is None:
                raise FileError("No such file or directory")
            await context.files.make_folder(name)
        except FileError as error:
            code = complain(context, f"cannot create directory '{name}': {error}")
    return code


async def tar(context: ContainerContext) -> int:
    """What `kubectl cp` asks for: `tar cf - PATH` and `tar -xmf - -C FOLDER`."""
    words = list(context.argv[1:])
    mode = words[0].lstrip("-") if words else ""
    if "c" in mode and "f" in mode:
        return await _pack(context, words[2:])
    if "x" in mode and "f" in mode:
        folder = words[words.index("-C") + 1] if "-C" in words[:-1] else "/"
        return await _unpack(context, folder)
    return complain(context, "the twin knows only `tar cf - PATH` and `tar xf - -C FOLDER`") + 1


async def _pack(context: ContainerContext, names: list[str]) -> int:
    packed = io.BytesIO()
    code = 0
    with tarfile.open(fileobj=packed, mode="w") as archive:
        waiting = list(names)
        while waiting:
            name = waiting.pop(0)
            content = await context.files.read(name)
            inside = await context.files.names(name)
            entry = tarfile.TarInfo(name.lstrip("/"))
            if content is not None:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            elif inside is not None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
                waiting += [posixpath.join(name, child) for child in inside]
            else:
                code = complain(context, f"{name}: Cannot stat: No such file or directory") + 1
    context.stdio.write(packed.getvalue())
    return code


async def _unpack(context: ContainerContext, folder: str) -> int:
    code = 0
    try:
        packed = io.BytesIO(await read_all(context, LIMIT_BYTES + _MARGIN))
        # As it stands: what is compressed or has holes may be a thousand times as large once it is unpacked.
        with tarfile.open(fileobj=packed, mode="r:") as archive:
            for entry in archive:
                path = posixpath.join(folder, entry.name)
                if entry.isdir():
                    await context.files.make_folder(path)
                elif entry.size > LIMIT_BYTES:
                    raise FileError("No space left on device")
                elif entry.isfile() and (file := archive.extractfile(entry)) is not None:
                    await context.files.write(path, file.read())
                else:
                    code = (
                        complain(context, f"{entry.name}: the twin reads no links and devices from archives")
                        + 1
                    )
    except (tarfile.TarError, FileError, ValueError, OverflowError) as error:  # of numbers in odd headers
        return complain(context, str(error)) + 1
    return code


FILING: Final[Mapping[str, Program]] = MappingProxyType(
    {"cat": cat, "touch": touch, "rm": rm, "mkdir": mkdir, "tar": tar}
)
