"""Ask NVIDIA's own toolkit for a CDI spec of a pretended driver, and keep it for tests/contract.

    go install github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk@v1.20.1
    python scripts/record_toolkit_cdi.py nvidia-ctk nvidia-cdi-hook

As root, with a C compiler: the program runs in a root of its own, over a driver's library of the tests. The
second argument is the program for hooks, as that root has it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.toolkit_root import make_toolkit_root

TARGET = Path(__file__).parents[1] / "tests/data/nvidia-ctk-1.20.1-cdi.json"
STRATEGIES = ("index", "uuid", "type-index")


def main() -> None:
    toolkit, hook = map(Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="tn-") as folder:
        root = make_toolkit_root(Path(folder), whole=True)
        (root / "tmp").mkdir()
        for program in (toolkit, hook):
            shutil.copy(program, root / "usr/bin" / program.name)
            for library in _libraries(program):
                place = root / library.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
        subprocess.run(["ldconfig", "-r", str(root)], check=True)
        words = ["chroot", str(root), f"/usr/bin/{toolkit.name}", "cdi", "generate", "--mode=nvml"]
        words += ["--format=json", *(f"--device-name-strategy={each}" for each in STRATEGIES)]
        said = subprocess.run(words, capture_output=True, check=True).stdout
    TARGET.write_text(json.dumps(json.loads(said), indent=1) + "\n")


def _libraries(program: Path) -> list[str]:
    """Those that the program is linked with."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


if __name__ == "__main__":
    main()
