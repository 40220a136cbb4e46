"""Container runtimes as a node has them: configurations, programs, packages, sockets, and who answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import dirname, join, normpath
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.processes import command_line, option
from tonnage.documents.node.runtime_config import containerd_config, crio_config, imports_of, toolkit_config
from tonnage.model.errors import Problem
from tonnage.model.node.facts import RuntimeFacts
from tonnage.model.node.runtime_config import TEMPLATES, RuntimeConfig, ToolkitConfig

SOCKETS: Final = (
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/var/run/crio/crio.sock",
)
_CONTAINERD: Final = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
_CRIO: Final = "/etc/crio/crio.conf"
_CRIO_PARTS: Final = ("/usr/lib/crio/crio.conf.d/*.conf", "/etc/crio/crio.conf.d/*.conf")
_TOOLKIT: Final = (
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
)
_PROGRAMS: Final = ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-cli")
_FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/opt/bin", "/usr/local/nvidia/toolkit")
_SEARCHED: Final = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
_HOOKS: Final = (
    "/usr/share/containers/oci/hooks.d/*nvidia*",
    "/etc/containers/oci/hooks.d/*nvidia*",
    "/run/containers/oci/hooks.d/*nvidia*",
)
_NRI: Final = ("/opt/nri/plugins/*nvidia*", "/etc/nri/conf.d/*nvidia*")
_PACKAGES: Final = frozenset(
    {
        *("containerd", "containerd.io", "cri-o", "nvidia-docker2", "nvidia-container-runtime"),
        *("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container1"),
    }
)
_DPKG: Final = 32 << 20
_MOST_FILES: Final = 64


def runtime_facts(files: NodeFiles, pids: Sequence[int] = ()) -> RuntimeFacts:
    """Everything but the version that the runtime itself tells; `pids` as in `runtime_configs`."""
    configs = tuple(runtime_configs(files, pids))
    toolkit = _toolkit(files)
    named = {handler.program for config in configs for handler in config.handlers.values()}
    if toolkit is not None:
        named |= {toolkit.ldconfig.lstrip("@"), toolkit.root}
    packages = _packages(files)
    candidates = (f"{folder}/{name}" for name in _PROGRAMS for folder in _FOLDERS)
    return RuntimeFacts(
        configs=configs,
        toolkit=toolkit,
        existing=frozenset(path for path in named if path and _exists(files, path)),
        programs=tuple(path for path in candidates if files.there(path)),
        packages=packages,
        nri_plugins=tuple(path for pattern in _NRI for path in files.matching(pattern)),
        hooks=tuple(path for pattern in _HOOKS for path in files.matching(pattern)),
        sockets=tuple(
            path
            for path in SOCKETS
            if (socket := files.socket(path)) is not None and socket.answer == "listens"
        ),
    )


def _exists(files: NodeFiles, path: str) -> bool:
    """A program by its path, or by its name where shells look."""
    places: Iterable[str] = (path,) if "/" in path else (f"{folder}/{path}" for folder in _SEARCHED)
    return any(files.there(place) for place in places)


def _configured_files(files: NodeFiles, pids: Sequence[int]) -> Iterator[str]:
    """The configuration files that containerds among the processes were told to read."""
    for pid in pids:
        words = command_line(files, pid)
        if words[0].rpartition("/")[2] == "containerd":
            yield from (path for name in ("--config", "-c") if (path := option(words, name)).startswith("/"))


def runtime_configs(files: NodeFiles, pids: Sequence[int] = ()) -> Iterator[RuntimeConfig]:
    """One for each runtime that has a configuration here, and for each place of containerd's.

    `pids` are processes; a containerd among them may have been told of a place of its own.
    """
    for main in dict.fromkeys([*_configured_files(files, pids), *_CONTAINERD]):
        content = files.read(main)
        if content.content is None and not content.trouble:
            continue
        imported = imported_files(files, main, content.text)
        texts, problems = _texts(files, [main, *imported])
        config = containerd_config(texts)
        beside, unread = _texts(files, [join(dirname(main), name) for name in TEMPLATES])
        problems += unread
        yield replace(
            config,
            files=(main, *imported),
            problems=(*problems, *config.problems),
            templates=dict(beside),
        )
    paths = [_CRIO, *(path for pattern in _CRIO_PARTS for path in files.matching(pattern))]
    texts, problems = _texts(files, paths)
    if texts or problems:
        config = crio_config(texts)
        yield replace(config, problems=(*problems, *config.problems))


def imported_files(files: NodeFiles, main: str, text: str) -> list[str]:
    """What containerd reads after its main file with this text, in that order, and each file once."""
    patterns = (normpath(join(dirname(main), written_pattern)) for written_pattern in imports_of(text))
    imported = dict.fromkeys(path for pattern in patterns for path in _expanded(files, pattern))
    return [path for path in imported if path != main][: _MOST_FILES - 1]


def _expanded(files: NodeFiles, pattern: str) -> list[str]:
    return list(files.matching(pattern)) if "*" in pattern else [pattern]


def _texts(files: NodeFiles, paths: Sequence[str]) -> tuple[list[tuple[str, str]], list[Problem]]:
    """(path and text of those that can be read, why others cannot)."""
    contents = [files.read(path) for path in paths[:_MOST_FILES]]
    problems = [
        Problem("cannot be read", content.path, content.trouble) for content in contents if content.trouble
    ]
    return [(content.path, content.text) for content in contents if content.content is not None], problems


def _toolkit(files: NodeFiles) -> ToolkitConfig | None:
    for path in _TOOLKIT:
        content = files.read(path)
        if content.trouble:
            return ToolkitConfig(path, problems=(Problem("cannot be read", path, content.trouble),))
        if content.content is not None:
            return toolkit_config(path, content.text)
    return None


def _packages(files: NodeFiles) -> Mapping[str, str]:
    """Of Debian's database, those that are installed."""
    versions: dict[str, str] = {}
    for paragraph in files.text("/var/lib/dpkg/status", _DPKG).split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        name = head.removeprefix("Package: ")
        if name in _PACKAGES and "\nStatus: install ok installed\n" in f"\n{rest}\n":
            version = next((line for line in rest.split("\n") if line.startswith("Version: ")), "")
            versions[name] = version.removeprefix("Version: ")[:100]
    return versions
