"""Which folders the command line uses, from the environment alone. Nothing is created here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environment: Mapping[str, str]) -> Path:
    """Where `up` keeps the embedded cluster: `$TONNAGE_STATE`, else the XDG state folder.

    >>> str(state_folder({"HOME": "/home/me"}))
    '/home/me/.local/state/tonnage'
    """
    named = environment.get("TONNAGE_STATE")
    return (
        Path(named).expanduser() if named else _xdg(environment, "XDG_STATE_HOME", ".local/state") / "tonnage"
    )


def cache_folder(environment: Mapping[str, str]) -> Path:
    """What can be made again: `$XDG_CACHE_HOME/tonnage`, else `~/.cache/tonnage`."""
    return _xdg(environment, "XDG_CACHE_HOME", ".cache") / "tonnage"


def runtime_folder(environment: Mapping[str, str], state: Path, user_id: int) -> Path:
    """A short folder for the sockets of the cluster in `state`: a Unix socket's path holds 107 bytes.

    Where somebody else has that name `up` takes another one, which the state folder says.

    >>> str(runtime_folder({}, Path("/home/me/.local/state/tonnage"), 1000))
    '/tmp/tonnage-1000-fc4512'
    """
    digest = hashlib.sha256(os.fsencode(state.absolute())).hexdigest()[:6]
    base = environment.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and len(base) <= 40:
        return Path(base) / f"tonnage-{digest}"
    return Path("/tmp") / f"tonnage-{user_id}-{digest}"  # noqa: S108 - made new, or another one is


def _xdg(environment: Mapping[str, str], variable: str, fallback: str) -> Path:
    """The folder that an XDG variable names; the specification says to ignore relative ones."""
    named = environment.get(variable, "")
    return Path(named) if named.startswith("/") else Path(environment.get("HOME") or Path.home()) / fallback
