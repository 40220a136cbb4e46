"""Starts `tonnage up` as a process of its own and waits until it can be used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from tonnage.cli.locations.state import Running, StateFolder
from tonnage.cli.up.options import UpOptions, asked_scenario
from tonnage.model.errors import ClusterError, ConfigError, Problem

READY_LINE: Final = "export KUBECONFIG="
_PATIENCE_S: Final = 400.0
_PAUSE_S: Final = 0.02
_TAIL_BYTES: Final = 4000


def start_detached(options: UpOptions, *, verbose: bool) -> Running:
    """The cluster, up and advertising, in a process that outlives this one. It logs to `up.log`.

    That process reads the scenario, which takes a third of a second; this one does so once it is refused.

    Raises:
        ConfigError: a cluster runs in this state folder already, or the scenario cannot be used.
        ClusterError: the process ended before it was ready.
    """
    folder = StateFolder(options.state)
    folder.hold()
    folder.release()
    fresh = [path for path in (folder.path, *folder.path.parents) if not path.exists()]
    try:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        asked_scenario(options)  # what is wrong with it is said first
        raise
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(folder.log, flags, 0o600), "ab") as writer, folder.log.open("rb") as reader:
        process = subprocess.Popen(  # noqa: S603 - this program itself
            _arguments(options, verbose=verbose),
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "TONNAGE_STATE": str(options.state)},
        )
        try:
            return _ready(process, folder, reader)
        except ConfigError:
            _check_scenario(options, folder, fresh)
            raise


def _check_scenario(options: UpOptions, folder: StateFolder, fresh: Sequence[Path]) -> None:
    """Raises ConfigError: the scenario cannot be used, and then no folder is left that was made for it."""
    try:
        asked_scenario(options)
    except ConfigError:
        folder.hold()
        folder.release()
        with suppress(OSError):  # somebody else has put something there
            for path in fresh:
                path.rmdir()
        raise


def _arguments(options: UpOptions, *, verbose: bool) -> list[str]:
    scenario = options.scenario
    if Path(scenario).is_file():
        scenario = str(Path(scenario).absolute())
    words = [sys.executable, "-m", "tonnage", "up", "--scenario", scenario, "--engine", options.engine]
    words += ["--state", str(options.state)] if options.keeps else []
    words += ["--audit-log", str(options.audit_log)] if options.audit_log is not None else []
    words += ["--feature-gates", options.feature_gates] if options.feature_gates else []
    words += ["--port", str(options.port)] if options.port is not None else []
    words += ["--nodes", str(options.nodes)] if options.nodes is not None else []
    words += ["--light-nodes", str(options.light_nodes)] if options.light_nodes is not None else []
    return [*words, "-v"] if verbose else words


def _ready(process: subprocess.Popen[bytes], folder: StateFolder, log: IO[bytes]) -> Running:
    """Wait for the line that `up` prints when the whole fleet is there."""
    for _ in range(int(_PATIENCE_S / _PAUSE_S)):
        tail = _tail(log)
        if READY_LINE in tail and (running := folder.running()):
            return running
        if process.poll() is not None:
            raise _failed(tail, process.returncode)
        time.sleep(_PAUSE_S)
    process.terminate()
    raise ClusterError(Problem("the fleet did not come up", str(folder.path), _tail(log)))


def _failed(tail: str, status: int) -> ClusterError | ConfigError:
    """The child's own words, with the status that it ended with."""
    text = tail.strip().removeprefix("error: ")
    if status < 0:
        text = f"killed by {signal.Signals(-status).name}\n{text}".strip()
    elif not text:
        text = f"exit status {status}"
    kind = ConfigError if status == ConfigError.exit_status else ClusterError
    return kind(Problem(f"the cluster ended before it was up\n{text}"))


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _TAIL_BYTES))
    return log.read().decode("utf-8", "replace")
