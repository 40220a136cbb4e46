"""What git knows of the sources that an image is built from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

_NO_CHECKOUT: Final = "not a git repository"
_FOREIGN: Final = "dubious ownership"


class Git:
    """Asks git about `repository`, and tells once why it says nothing although there is a checkout.

    Sources without a checkout (an unpacked archive) are fine and make an image without a revision.
    """

    def __init__(self, repository: Path, tell: Callable[[str], None]) -> None:
        self._repository = repository
        self._tell = tell
        self._told = False

    def says(self, *arguments: str) -> str:
        """What git prints, stripped; nothing where there is no checkout, or git cannot read it."""
        try:
            answer = subprocess.run(
                ["git", "--no-optional-locks", *arguments],
                cwd=self._repository,
                env={**os.environ, "LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            if (self._repository / ".git").exists():
                self._warn(f"cannot run git: {error.strerror}", "install git")
            return ""
        if answer.returncode == 0:
            return answer.stdout.strip()
        if _NO_CHECKOUT not in answer.stderr:
            why = (answer.stderr.strip().splitlines() or [f"exit status {answer.returncode}"])[0]
            safe = f"git config --global --add safe.directory {self._repository}"
            self._warn(why, safe if _FOREIGN in answer.stderr else f"git -C {self._repository} status")
        return ""

    def _warn(self, why: str, remedy: str) -> None:
        if not self._told:
            self._tell(f"  warning: the image names no revision and no time of one: {why[:300]}")
            self._tell(f"  remedy: {remedy}")
        self._told = True
