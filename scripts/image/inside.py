"""Programs run inside a root that is not this machine's: bytecode compiled there, the image tried there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tonnage.model.errors import ConfigError, Problem

PROBE: Final = Path(__file__).with_name("probe.py")
USER_ID: Final = 65532
_LAST_WORDS: Final = 4000


def compile_bytecode(root: Path, *folders: str) -> None:
    """Compile with the image's own Python. Nobody looks at times or sources later: they are said to match."""
    # -B: the compiler's own imports would leave bytecode that holds the time at which they were unpacked.
    options = ["-B", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    _run(root, "compileall", [*options, *folders])


def try_image(root: Path) -> None:
    """Import everything and run the program, as the user the image is for where that is possible.

    Raises:
        ConfigError: with what failed.
    """
    _run(root, "the imports", ["-sPB", "-"], user=USER_ID, text=PROBE.read_text(encoding="utf-8"))
    for arguments in (["version", "--client"], ["node", "--help"]):
        _run(root, " ".join(arguments), ["-sPB", "/usr/local/bin/tonnage", *arguments], user=USER_ID)


def _run(root: Path, what: str, arguments: Sequence[str], *, user: int = 0, text: str = "") -> None:
    if os.geteuid() == 0:
        enter = ["unshare", f"--root={root}", "--wd=/", f"--setgid={user}", f"--setuid={user}"]
    else:
        enter = ["unshare", "--user", "--map-root-user", f"--root={root}", "--wd=/"]
    try:
        answer = subprocess.run(
            [*enter, "/usr/bin/python3", *arguments],
            # The hash seed decides in which order sets are written into bytecode.
            env={"PATH": "/usr/local/bin:/usr/bin", "HOME": "/tmp", "PYTHONHASHSEED": "0"},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError(Problem("no unshare", remedy="apt-get install util-linux")) from None
    if answer.returncode == 0:
        return
    said = (answer.stderr.strip() or answer.stdout.strip())[-_LAST_WORDS:]
    if said.startswith("unshare:"):
        raise ConfigError(
            Problem(
                "nothing can be run inside the image's root",
                str(root),
                said,
                "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or build as root, "
                "which a container of debian:bookworm gives without privileges",
            )
        )
    raise ConfigError(
        Problem(
            f"the image does not work: {what} failed inside it",
            "deploy/image",
            said,
            "if the checkout itself works: what is missing is left out by deploy/image/left-out.txt, or not "
            "named in packages.txt",
        )
    )
