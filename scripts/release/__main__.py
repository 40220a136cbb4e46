"""`python -m scripts.release`: what `make release` runs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from scripts.image.build import REPOSITORY
from scripts.release.build import SUMS, ReleaseWish, make_release
from scripts.release.krew import NOWHERE
from tonnage.cli.locations.folders import cache_folder
from tonnage.cli.terminal.failure import render_problem
from tonnage.model.errors import ConfigError


def main() -> int:
    """Build; the exit status."""
    wish = _wish()
    try:
        folder = make_release(wish, lambda line: print(line, flush=True), os.environ)
    except ConfigError as error:
        for problem in error.problems:
            print(render_problem(problem), file=sys.stderr)
        return error.exit_status
    print(f"{folder}:")
    print((folder / SUMS).read_text(encoding="utf-8"), end="")
    return 0


def _wish() -> ReleaseWish:
    parser = argparse.ArgumentParser(prog="make release", description="Build all that a release has.")
    add = parser.add_argument
    add("--output", type=Path, default=REPOSITORY / "dist", help="the folder to put its folder in")
    add("--tag", default="", metavar="NAME:TAG", help="the image's name [default: one that no registry has]")
    add("--address", default=NOWHERE, metavar="URL", help="where releases lie, for the manifest of krew")
    add("--accept", action="append", default=[], metavar="ID", help="a vulnerability that does not stop it")
    add("--trial", action="store_true", help="take today's Debian packages, locked and read or not")
    add("--offline", action="store_true", help="use what an earlier build fetched")
    options = parser.parse_args()
    return ReleaseWish(
        output=options.output.absolute(),
        cache=cache_folder(os.environ) / "images",
        name=options.tag,
        address=options.address,
        accept=options.accept,
        trial=options.trial,
        offline=options.offline,
    )


if __name__ == "__main__":
    sys.exit(main())
