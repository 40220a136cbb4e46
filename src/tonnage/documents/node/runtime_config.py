"""TOML of container runtimes to what GPUs depend on: containerd versions 1 to 3, CRI-O, NVIDIA's toolkit.

Source: containerd docs/cri/config.md (1.7, 2.x), CRI-O docs/crio.conf.5, nvidia-container-toolkit v1.20.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from tonnage.model.errors import Problem
from tonnage.model.node.runtime_config import CDI_FOLDER, Handler, RuntimeConfig, RuntimeKind, ToolkitConfig

_CRI: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
_CRI_NAMES: Final = frozenset({*_CRI, "io.containerd.cri.v1.images"})
_NRI: Final = "io.containerd.nri.v1.nri"
_POSITION: Final = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
_HEADER: Final = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(#.*)?")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")
_MOST_HANDLERS: Final = 100
_LONGEST: Final = 500
_LONGEST_LINE: Final = 2000
_MOST_DOTS: Final = 200

Table = Mapping[str, Any]


def containerd_config(files: Sequence[tuple[str, str]]) -> RuntimeConfig:
    """The main file and what it imports, in that order, each as (path, text); what is said later counts."""
    problems: list[Problem] = []
    settings: dict[str, Any] = {}
    handlers: dict[str, Handler] = {}
    for path, text in files:
        table = parsed_toml(path, text, problems)
        if "version" in table and isinstance(table["version"], int):
            settings["version"] = table["version"]
        disabled = table.get("disabled_plugins")
        if isinstance(disabled, list) and _CRI_NAMES.intersection(map(str, disabled)):
            settings["cri_disabled"] = _where(path, text, "", "disabled_plugins")
        plugins = _table(table, "plugins")
        for name in _CRI:
            if name in plugins:
                _containerd_cri(path, text, _table(plugins, name), settings, handlers)
        off = _table(plugins, _NRI).get("disable")
        if isinstance(off, bool):
            settings |= {"nri": not off, "nri_where": _where(path, text, _NRI, "disable")}
    names = tuple(path for path, _ in files)
    return RuntimeConfig(
        RuntimeKind.CONTAINERD, names, handlers=handlers, problems=tuple(problems), **settings
    )


def _containerd_cri(
    path: str, text: str, cri: Table, settings: dict[str, Any], handlers: dict[str, Handler]
) -> None:
    enabled = cri.get("enable_cdi")
    if isinstance(enabled, bool):
        where = _where(path, text, "cri", "enable_cdi")
        settings |= {"cdi": enabled, "cdi_where": where, "cdi_replaced": ""}
    elif "cdi" in settings:
        settings["cdi_replaced"] = path
    _cdi_folders(path, text, "cri", cri, settings)
    containerd = _table(cri, "containerd")
    default = containerd.get("default_runtime_name")
    if isinstance(default, str):
        where = _where(path, text, "containerd", "default_runtime_name")
        settings |= {"default": default[:_LONGEST], "default_where": where}
    for name, body in _tables(containerd, "runtimes"):
        options = _table(body, "options")
        key = next((key for key in ("BinaryName", "Runtime") if options.get(key)), "BinaryName")
        where = _where(path, text, f"runtimes.{name}", key)
        handlers[name] = Handler(name, str(options.get(key) or "")[:_LONGEST], where)


def _cdi_folders(path: str, text: str, section: str, owner: Table, settings: dict[str, Any]) -> None:
    folders = owner.get("cdi_spec_dirs")
    if isinstance(folders, list):
        read = {str(folder).rstrip("/").replace("/var/run/", "/run/", 1) for folder in folders}
        ours = CDI_FOLDER.replace("/var/run/", "/run/", 1) in read
        settings["cdi_elsewhere"] = "" if ours else _where(path, text, section, "cdi_spec_dirs")


def crio_config(files: Sequence[tuple[str, str]]) -> RuntimeConfig:
    """crio.conf and the files of crio.conf.d in their order, each as (path, text)."""
    problems: list[Problem] = []
    settings: dict[str, Any] = {}
    handlers: dict[str, Handler] = {}
    for path, text in files:
        crio = _table(parsed_toml(path, text, problems), "crio")
        runtime = _table(crio, "runtime")
        _cdi_folders(path, text, "crio.runtime", runtime, settings)
        default = runtime.get("default_runtime")
        if isinstance(default, str):
            where = _where(path, text, "crio.runtime", "default_runtime")
            settings |= {"default": default[:_LONGEST], "default_where": where}
        nri = _table(crio, "nri").get("enable_nri")
        if isinstance(nri, bool):
            settings |= {"nri": nri, "nri_where": _where(path, text, "crio.nri", "enable_nri")}
        for name, body in _tables(runtime, "runtimes"):
            where = _where(path, text, f"runtimes.{name}", "runtime_path")
            handlers[name] = Handler(name, str(body.get("runtime_path") or "")[:_LONGEST], where)
    names = tuple(path for path, _ in files)
    return RuntimeConfig(RuntimeKind.CRIO, names, handlers=handlers, problems=tuple(problems), **settings)


def toolkit_config(path: str, text: str) -> ToolkitConfig:
    """`/etc/nvidia-container-runtime/config.toml`."""
    problems: list[Problem] = []
    table = parsed_toml(path, text, problems)
    command, runtime = _table(table, "nvidia-container-cli"), _table(table, "nvidia-container-runtime")

    def text_of(owner: Table, section: str, key: str) -> tuple[str, str]:
        value = owner.get(key)
        bounded = value[:_LONGEST] if isinstance(value, str) else ""
        return bounded, _where(path, text, section, key) if bounded else ""

    unprivileged = table.get("accept-nvidia-visible-devices-envvar-when-unprivileged")
    mode, mode_where = text_of(runtime, "nvidia-container-runtime", "mode")
    ldconfig, ldconfig_where = text_of(command, "nvidia-container-cli", "ldconfig")
    root, root_where = text_of(command, "nvidia-container-cli", "root")
    no_cgroups = command.get("no-cgroups") is True
    return ToolkitConfig(
        path,
        mode,
        mode_where,
        ldconfig,
        ldconfig_where,
        root,
        root_where,
        _where(path, text, "nvidia-container-cli", "no-cgroups") if no_cgroups else "",
        unprivileged if isinstance(unprivileged, bool) else None,
        _where(path, text, "", "accept-nvidia-visible-devices-envvar-when-unprivileged"),
        tuple(problems),
    )


def imports_of(text: str) -> tuple[str, ...]:
    """What a containerd configuration imports: paths and patterns, as they stand there."""
    imports = parsed_toml("", text, []).get("imports")
    paths = imports if isinstance(imports, list) else []
    return tuple(path[:_LONGEST] for path in paths if isinstance(path, str))[:_MOST_HANDLERS]


def parsed_toml(path: str, text: str, problems: list[Problem]) -> Table:
    """The text as a table, empty with a problem more (at its line and column) where it is no TOML."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _MOST_DOTS:
            why = f"more than {_MOST_DOTS} dots: a key of so many parts takes minutes to read"
            problems.append(Problem("the line was not read", f"{path}:{number}", why))
            return {}
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _POSITION.search(message)
        where = f"{path}:{at[1]}:{at[2]}" if at and at[1] else f"{path}:{text.count(chr(10)) + 1}"
        problems.append(
            Problem(
                "the file is not valid TOML", where, message[: at.start()].strip() if at else message[:200]
            )
        )
    except RecursionError:
        problems.append(Problem("the file is not valid TOML", path, "nested too deeply"))
    except ValueError as error:  # an integer of more digits than Python reads
        problems.append(Problem("the file is not valid TOML", path, str(error)[:200]))
    return {}


def _table(owner: Table, key: str) -> Table:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _tables(owner: Table, key: str) -> Iterator[tuple[str, Table]]:
    for name, body in list(_table(owner, key).items())[:_MOST_HANDLERS]:
        if isinstance(body, dict):
            yield name[:_LONGEST], body


def _where(path: str, text: str, section: str, key: str) -> str:
    """`path:line` of a key: the last of that name under a header with `section` in it, else the header's."""
    header_at, key_at = 0, 0
    for number, header, name in _lines(text):
        if not name:
            header_at = number if section and section in header else header_at
        elif name == key and section in header:
            key_at = number
    number = key_at or header_at
    return f"{path}:{number}" if number else path


@lru_cache(maxsize=2)
def _lines(text: str) -> tuple[tuple[int, str, str], ...]:
    """(number, the header that it stands under, its key) of every line with a key or, without one, a header.

    Kept for a moment: the place of each of a hundred handlers is looked for in the same text.
    """
    header = ""
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LONGEST_LINE:  # the patterns take their time with such a line
            continue
        head = _HEADER.fullmatch(line)
        if head is not None:
            header = head[1].replace('"', "").replace("'", "").replace(" ", "")
            rows.append((number, header, ""))
        elif (match := _KEY.match(line)) and (name := match[1].strip("\"'")):
            rows.append((number, header, name))
    return tuple(rows)
