"""The folder of an embedded cluster's sockets: new, this user's alone, and remembered by the state folder.

The usual one lies below /tmp under a name that can be guessed, so somebody else may have made it first.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from tonnage.cli.locations.state import RUNTIME, StateFolder, unusable, write_own
from tonnage.model.errors import ConfigError, Problem, words_of


def find_runtime(state: StateFolder, usual: Path) -> Path | None:
    """The folder, `usual` unless the state folder says another; None if it is not this user's own."""
    try:
        recorded = (state.path / RUNTIME).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        recorded = ""
    except (OSError, UnicodeError) as error:
        where, remedy = str(state.path / RUNTIME), "remove it, then run tonnage up again"
        raise ConfigError(Problem("unreadable", where, words_of(error), remedy)) from error
    folder = Path(recorded or usual)
    return folder if _is_own(folder) else None


def make_runtime(state: StateFolder, usual: Path) -> Path:
    """An empty folder that nobody else can enter, for who holds the state; what was there before goes.

    It is `usual`, unless somebody else has that name.

    Raises:
        HardwareError: it cannot be made.
    """
    for folder in (find_runtime(state, usual), usual):
        if folder is not None and _is_own(folder):
            shutil.rmtree(folder, ignore_errors=True)
    try:
        usual.parent.mkdir(parents=True, exist_ok=True)
        made = _made_or_beside(usual)
        write_own(state.path / RUNTIME, str(made))
    except OSError as error:
        raise unusable(usual, error) from error
    return made


def _made_or_beside(path: Path) -> Path:
    """A new folder of that name; of another name if there is anything of that one already."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return Path(tempfile.mkdtemp(prefix="tn-", dir=path.parent))  # no longer: sockets have little room
    return path


def _is_own(folder: Path) -> bool:
    """Whether it is a folder of this user's, and no link to one."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
