"""The pretended libnvidia-ml.so.1 and its like, built with the C compiler of the machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

SONAME: Final = "libnvidia-ml.so.1"
NEWEST_C_LIBRARY: Final = (2, 31)
_SOURCES: Final = Path(__file__).parent
_FLAGS: Final = (
    *("-std=c11", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-semantic-interposition"),
    *("-Wall", "-Wextra", "-Wno-format-truncation", "-Wno-missing-field-initializers"),
    *("-U_FORTIFY_SOURCE", "-Wl,-z,defs", "-Wl,--hash-style=both"),
)


def nvml_library() -> Path:
    """The built library; made once per content of its sources, in a folder of this user's.

    Raises RuntimeError when there is no gcc or it refuses: the tests that need it must fail, not be skipped.
    """
    return built_library(_SOURCES, SONAME)


def built_library(folder_of_sources: Path, name: str) -> Path:
    """All C of a folder as the library of that name, as `nvml_library` is made."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError(f"no gcc: {name} cannot be built. Remedy: apt-get install gcc")
    sources = sorted(folder_of_sources.glob("*.[ch]"))
    flags = (*_FLAGS, f"-Wl,-soname,{name}")
    digest = hashlib.sha256(repr((compiler, flags)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = _own_folder() / digest.hexdigest()[:24]
    library = folder / name
    if not library.exists():
        folder.mkdir(exist_ok=True)
        _build([compiler, *flags], [str(source) for source in sources if source.suffix == ".c"], library)
    return library


def _own_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"tonnage-nvml-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise RuntimeError(f"{folder} is not ours. Remedy: remove it, or set TMPDIR")
    return folder


def _build(compiler: list[str], sources: list[str], library: Path) -> None:
    """Parallel workers may build at the same time; the last one's file stays, and all are alike."""
    made = library.with_name(f"{library.name}.{os.getpid()}")
    done = subprocess.run(
        [*compiler, "-o", str(made), *sources], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise RuntimeError(f"gcc does not build {library.name}:\n{done.stderr}")
    made.replace(library)
