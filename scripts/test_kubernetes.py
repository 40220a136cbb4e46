"""Run the tests on genuine Kubernetes programs; arguments go to pytest.

As root everything, in a network of its own; what is left there when pytest has ended, or was made to, is
ended too. Without root the tests on a genuine node are left out, and said to be; in CI (`CI` is set) that is
a failure. `--preflight` only looks whether this machine can do it: the programs take long to build.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LEFT_OUT: Final = (
    "the tests on a genuine node (kubelet, the chart, CDI injection by containerd and podman): they need root"
    " for namespaces and mounts"
)
LIMIT_S: Final = 7200.0
"""Three times what two quiet cores take: something hangs."""
_GRACE_S: Final = 120.0
_WORKERS: Final = "2"
"""One has the node, where tests wait most of their time; one has control planes, a file's at a time."""
_PROGRAMS: Final[Mapping[str, str]] = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "gcc": "gcc libc6-dev",
}
"""What the tests run, and Debian's package of it."""


def main(arguments: Sequence[str], environment: Mapping[str, str], user: int) -> int:
    """The exit status of pytest, or 1 when what is needed is not here."""
    everything = user == 0
    problems = list(_missing(environment, everything=everything))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    if not everything:
        print(f"Left out: {LEFT_OUT}.", flush=True)
    if "--preflight" in arguments:
        return 0
    if everything:
        _leave_network()
    chosen = "kubernetes" if everything else "kubernetes and not node"
    try:
        command = [sys.executable, "-m", "pytest", "-m", chosen, "-p", "no:randomly"]
        return _run([*command, "--workers", _WORKERS, *arguments])
    finally:
        if everything:
            _end_what_is_left()


def _missing(environment: Mapping[str, str], *, everything: bool) -> Iterator[str]:
    """What this machine lacks, each with its remedy."""
    if not everything:
        if environment.get("CI"):
            yield f"error: CI cannot run {LEFT_OUT}\nremedy: run it as root"
        return
    lacking = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    if lacking:
        yield f"error: programs are missing\nremedy: apt-get install {' '.join(sorted(lacking))}"
    elif (tried := subprocess.run(["unshare", "--net", "--mount", "true"], check=False)).returncode:
        yield (
            f"error: no namespaces here (unshare ended with status {tried.returncode})\n"
            "remedy: a machine, or a container that may make them (CAP_SYS_ADMIN, CAP_NET_ADMIN)"
        )


def _leave_network() -> None:
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
    from support.images import prepare_images
    from support.own_network import enter_own_network
    from tonnage.cli.terminal.failure import render_problem
    from tonnage.model.errors import ConfigError

    try:
        prepare_images()
    except ConfigError as error:
        raise SystemExit("\n".join(map(render_problem, error.problems))) from None
    enter_own_network()


def _run(command: Sequence[str]) -> int:
    """Pytest in a process of its own: a request to end reaches it as Ctrl-C, after which it tidies up."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    process = subprocess.Popen(command, cwd=ROOT)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        process.send_signal(signal.SIGINT)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C reaches pytest by itself
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"error: not done after {LIMIT_S:.0f} s; ending it", file=sys.stderr)
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        return 1
    finally:
        process.kill()
        process.wait()


def _end_what_is_left() -> None:
    """Every process in this network is of the tests; then what a node leaves that was killed."""
    from support.leftovers import sweep

    for pid in _neighbours():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sweep()


def _neighbours() -> Iterator[int]:
    own = Path("/proc/self/ns/net").readlink()
    for network in Path("/proc").glob("[0-9]*/ns/net"):
        with suppress(OSError):
            pid = int(network.parts[2])
            if pid != os.getpid() and network.readlink() == own:
                yield pid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, os.geteuid()))
