"""`python -m fuzz --seconds N [TARGET …]`: targets one after another under atheris, which follows coverage.

What it finds is written to the folder `--findings`; beside the corpus it keeps what it learns under
`--learned`. The exit status is 1 when anything was found. Both programs run with tests/ on the path.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from fuzz.bounds import MOST_WALL_S
from fuzz.inputs import CORPUS, MOST_BYTES

_WITHIN: Final = "--within"
"""Before a target's name: fuzz it in this process."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz targets under atheris.")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--findings", type=Path, default=Path(".fuzz/findings"))
    parser.add_argument("--learned", type=Path, default=Path(".fuzz/learned"))
    options = parser.parse_args()
    names = sorted(folder.name for folder in CORPUS.iterdir())
    if unknown := sorted(set(options.targets) - set(names)):
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(names)}")
    failed = [name for name in options.targets or names if _run(name, options) != 0]
    print(
        f"fuzz: {', '.join(failed)} failed; inputs are in {options.findings}"
        if failed
        else "fuzz: nothing found"
    )
    return 1 if failed else 0


def _run(name: str, options: argparse.Namespace) -> int:
    """The exit status of a process of its own: libFuzzer ends the one that it runs in."""
    learned, findings = options.learned / name, options.findings
    for folder in (learned, findings):
        folder.mkdir(parents=True, exist_ok=True)
    _plant(name, learned)
    limits = [
        f"-max_total_time={options.seconds}",
        f"-max_len={MOST_BYTES}",
        f"-timeout={MOST_WALL_S:.0f}",
        "-rss_limit_mb=2048",
    ]
    print(f"fuzz: {name}, {options.seconds} s", flush=True)
    return subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "fuzz",
                "--within",
                name,
                *limits,
                "-print_final_stats=1",
                "-verbosity=0",
            ),
            *(f"-artifact_prefix={findings}/{name}-", str(learned), str(CORPUS / name)),
        ],
        check=False,
        timeout=7200,
    ).returncode


def _plant(name: str, learned: Path) -> None:
    """Put small hostile inputs beside what was learned: from there it is not far to what is dangerous."""
    from fuzz.hostile.families import SIZES, hostile_for  # imports what atheris is to instrument

    for size in SIZES[:2]:
        for data in hostile_for(name, size):
            if len(data) <= MOST_BYTES:
                (learned / sha256(data).hexdigest()[:16]).write_bytes(data)


def _fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz until libFuzzer ends this process."""
    import logging

    try:
        import atheris
    except ImportError:
        sys.exit("error: atheris is not installed. Remedy: make fuzz, on Linux with an x86-64 processor")
    with atheris.instrument_imports(include=["tonnage"]):
        from fuzz.bounds import growing
        from fuzz.targets import TARGETS
    logging.disable()
    with TARGETS[name]() as target:
        atheris.Setup([sys.argv[0], *arguments], growing(target))
        atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == [_WITHIN]:
        _fuzz(sys.argv[2], sys.argv[3:])
    sys.exit(main())
