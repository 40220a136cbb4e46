"""The node's agent from outside: whether it runs, what it ran last, what it answers over HTTP."""

from __future__ import annotations

import fcntl
import http.client
import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from tonnage.adapters.checkpoints import MAX_BYTES, payload_of
from tonnage.adapters.http.address import parse_address
from tonnage.adapters.node_facts.files import NOT_ROOT, NodeFiles, refusal
from tonnage.adapters.node_facts.processes import option, plugin_processes
from tonnage.model.devices.sharing import DeviceListStrategy, PluginConfig
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import parsed_json
from tonnage.model.node.facts import AgentPage, PluginFacts

_STATE: Final = "/var/lib/tonnage"
_CONFIG: Final = f"{_STATE}/device-plugin-config"
LOCK: Final = f"{_STATE}/agent.lock"
_CHECKPOINTS: Final = ("allocations", "device-health", "device-list", "mps", "node-conditions")
"""What else the agent keeps, under a checksum."""
_SETTLED: Final = f"{_STATE}/device-list"
_WAIT_S: Final = 1.0
_MOST_PAGE: Final = 1 << 20
_LOCAL: Final = re.compile(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s*/32 host LOCAL")
_ANY: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, nothing listens


def plugin_facts(files: NodeFiles, pids: list[int], address: str = "") -> PluginFacts:
    """What can be seen of it. Without an `address` the process's own words say where it serves."""
    processes = list(plugin_processes(files, pids))
    running, trouble = _locked(files)
    ours = next(((process, words) for process, words in processes if process.name == "tonnage"), None)
    if not address and ours is not None:
        address = _address(files, ours[0].pid, option(ours[1], "--metrics-address"))
    config, source, config_trouble = _config(files)
    ready = _page(address, "/readyz") if address else None
    return PluginFacts(
        running,
        trouble,
        tuple(process for process, _ in processes),
        config,
        source,
        config_trouble,
        tuple(_damaged(files)),
        address,
        ready,
        _page(address, "/metrics") if ready else None,
    )


def _locked(files: NodeFiles) -> tuple[bool | None, str]:
    """(whether an agent holds the node's lock, why that cannot be told). The lock is let go at once."""
    place = files.place(LOCK)
    if place is None:
        return (None, NOT_ROOT) if files.denied(LOCK) else (False, "")
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return None, refusal(error)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True, ""
    except OSError as error:
        return None, refusal(error)
    finally:
        os.close(handle)
    return False, ""


def _damaged(files: NodeFiles) -> Iterator[str]:
    for name in _CHECKPOINTS:
        content = files.read(f"{_STATE}/{name}", MAX_BYTES)
        if content.content is not None and payload_of(content.content) is None:
            yield content.path
        if files.there(f"{content.path}.damaged"):
            yield f"{content.path}.damaged"


def _config(files: NodeFiles) -> tuple[PluginConfig | None, str, str]:
    """(what ran last, where it was from, why it cannot be read)."""
    content = files.read(_CONFIG, MAX_BYTES)
    if content.content is None:
        return None, "", content.trouble
    payload = payload_of(content.content)
    if payload is None:
        return None, "", "its checksum is wrong"
    try:
        saved: Any = parsed_json(payload)
        text, source = str(saved["text"]), str(saved["source"])[:500]
        return _settled(files, _parsed(text, source)), source, ""
    except (ValueError, KeyError, TypeError) as error:
        return None, "", f"it is malformed ({type(error).__name__})"
    except ConfigError as error:
        return None, "", error.problems[0].what


def _settled(files: NodeFiles, config: PluginConfig) -> PluginConfig:
    """With what `deviceListStrategy: auto` came to last in its place."""
    if DeviceListStrategy.AUTO not in config.device_list:
        return config
    stored = payload_of(files.read(_SETTLED).content or b"") or b""
    matching = [strategy for strategy in DeviceListStrategy if strategy.value.encode() == stored]
    return replace(config, device_list=tuple(matching) or (DeviceListStrategy.ENVVAR,))


def _parsed(text: str, source: str) -> PluginConfig:
    if not text:
        return PluginConfig()
    from tonnage.documents.device_plugin.config import parse_device_plugin_config  # takes a while

    return parse_device_plugin_config(text, source=source, lenient=True)


def _address(files: NodeFiles, pid: int, written: str) -> str:
    """Where to ask: a wildcard is the machine's own address, or that of the process's network."""
    address = parse_address(written) if written else None
    if address is None or isinstance(address, Problem):
        return ""
    if address.host not in _ANY:
        return written
    own, first = (files.link(f"/proc/{process_id}/ns/net") for process_id in (pid, 1))
    if own and own != first:
        table = files.text(f"/proc/{pid}/net/fib_trie", 1 << 20)
        local = [ip for ip in _LOCAL.findall(table) if not ip.startswith("127.")]
        return f"{local[0]}:{address.port}" if local else ""
    return f"127.0.0.1:{address.port}"


def _page(address: str, path: str) -> AgentPage | None:
    """What it answers within a moment; None if nobody does."""
    parsed_address = parse_address(address)
    if isinstance(parsed_address, Problem):
        return None
    try:
        with closing(
            http.client.HTTPConnection(parsed_address.host, parsed_address.port, timeout=_WAIT_S)
        ) as client:
            client.request("GET", path)
            answer = client.getresponse()
            return AgentPage(answer.status, answer.read(_MOST_PAGE).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException):
        return None
