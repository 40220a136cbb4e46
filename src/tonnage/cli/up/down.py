"""`tonnage down`: end the embedded cluster, wherever it runs, and leave nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from tonnage.cli.locations.folders import runtime_folder, state_folder
from tonnage.cli.locations.socket_folder import find_runtime
from tonnage.cli.locations.state import StateFolder
from tonnage.cli.options import STATE_HELP, Common, common_options, examples
from tonnage.cli.terminal.output import say
from tonnage.model.errors import HardwareError, Problem

_GRACE_S: Final = 15.0
_PAUSE_S: Final = 0.05


@click.command(
    help="Stop the embedded cluster and remove what it left.",
    epilog=examples("tonnage down", "tonnage down --state /tmp/second"),
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=STATE_HELP,
)
@common_options()
def command(common: Common, state: Path | None) -> None:
    """Idempotent: nothing to stop is not an error."""
    del common
    folder = StateFolder(state or state_folder(os.environ))
    sockets = find_runtime(folder, runtime_folder(os.environ, folder.path, os.getuid()))
    stopped = stop(folder, kill=os.kill, sleep=time.sleep)
    if not stopped and not folder.stale():
        say(f"No embedded cluster runs in {folder.path}.")
        return
    if folder.stale():
        folder.hold()
        folder.release()
    if sockets is not None:
        shutil.rmtree(sockets, ignore_errors=True)
    say(f"Stopped the embedded cluster in {folder.path}." if stopped else f"Cleaned up {folder.path}.")


def stop(folder: StateFolder, *, kill: Callable[[int, int], None], sleep: Callable[[float], None]) -> bool:
    """Ask the owner to end, and make it end when it does not; whether there was one.

    Raises:
        HardwareError: it cannot be ended.
    """
    waited = 0.0
    sent = 0
    while (pid := folder.owner()) is not None:
        needed = signal.SIGTERM if waited < _GRACE_S else signal.SIGKILL
        if waited > 2 * _GRACE_S:
            raise HardwareError(
                Problem("the embedded cluster does not stop", str(folder.path), f"process {pid}")
            )
        if pid and sent != needed:
            try:
                kill(pid, needed)
            except ProcessLookupError:
                pass
            except PermissionError as error:
                raise HardwareError(
                    Problem(
                        "the embedded cluster belongs to another user",
                        str(folder.path),
                        f"process {pid}: {error}",
                    )
                ) from error
            sent = needed
        sleep(_PAUSE_S)
        waited += _PAUSE_S
    return sent != 0
