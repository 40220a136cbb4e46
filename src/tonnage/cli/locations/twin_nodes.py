"""Where the nodes of an embedded cluster lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tonnage.cli.locations.folders import runtime_folder, state_folder
from tonnage.cli.locations.socket_folder import find_runtime
from tonnage.cli.locations.state import StateFolder
from tonnage.model.errors import ConfigError, Problem

HARDWARE: Final = "hardware.yaml"
_MOST_NODES: Final = 10_000
_LONGEST_NAME: Final = 256


def asked_state(environment: Mapping[str, str]) -> Path:
    """State folder of the embedded cluster that kubectl asks; without KUBECONFIG, of the default one.

    Raises ConfigError when kubectl asks another cluster: what is done to the pretended one would not show.
    """
    named = environment.get("KUBECONFIG", "")
    if not named:
        return state_folder(environment)
    kubeconfig = Path(named).absolute()
    running = StateFolder(kubeconfig.parent).running() if kubeconfig.is_file() else None
    if running is None or Path(running.kubeconfig) != kubeconfig:
        why = "only an embedded cluster simulates hardware"
        remedy = 'run eval "$(tonnage up --detach)", or unset KUBECONFIG'
        raise ConfigError(Problem("this cluster is not embedded", f"KUBECONFIG={named[:200]}", why, remedy))
    return kubeconfig.parent


def node_folder(state: Path, node: str, *, where: str) -> Path:
    """The folder that is the node's `/`, and this user's. Raises ConfigError, with `where` it was named."""
    runtime = find_runtime(StateFolder(state), runtime_folder(os.environ, state, os.getuid()))
    files = [] if runtime is None else sorted(runtime.glob(f"*/{HARDWARE}"))
    folders = (file.parent for file in files[:_MOST_NODES])
    by_name = {_name_of(folder): folder for folder in folders}
    if node not in by_name:
        names = ", ".join(sorted(by_name)[:10])
        why = f"its nodes: {names}" if names else "no embedded cluster runs here"
        raise ConfigError(
            Problem(f"not a node of the embedded cluster: {node[:63]}", where, why, "tonnage up")
        )
    return by_name[node]


def _name_of(folder: Path) -> str:
    try:
        with (folder / "etc/hostname").open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_NAME).strip().lower()
    except OSError:
        return ""
