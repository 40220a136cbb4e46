"""`python -m scripts.image`: build the image of the checkout; what `make image` runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from scripts.image.build import REPOSITORY, Wish, build_image, lock_packages
from tonnage.cli.locations.folders import cache_folder
from tonnage.cli.terminal.failure import render_problem
from tonnage.model.errors import ConfigError


def main() -> int:
    """Build; the exit status."""
    wish, locking = _wish()
    started = time.monotonic()
    try:
        if locking:
            lock_packages(wish, lambda line: print(line, flush=True))
            return 0
        print("Building the image (half a minute when nothing is cached):", flush=True)
        built = build_image(wish, lambda line: print(line, flush=True), os.environ)
    except ConfigError as error:
        for problem in error.problems:
            print(render_problem(problem), file=sys.stderr)
        return error.exit_status
    print(f"{built.name}\n  {built.digest}")
    print(f"  {wish.output}: {built.archive_size / 1e6:.1f} MB, {time.monotonic() - started:.0f} s")
    return 0


def _wish() -> tuple[Wish, bool]:
    """What to build; whether only to write the lock."""
    parser = argparse.ArgumentParser(prog="make image", description="Build the image as an OCI archive.")
    add = parser.add_argument
    add("--output", type=Path, default=REPOSITORY / "dist/tonnage-image.tar", help="the archive to write")
    add(
        "--tag",
        default="",
        metavar="NAME:TAG",
        help="[default: tonnage.invalid/agent:VERSION, which no registry has]",
    )
    add("--version", default="", help="what Tonnage says it is [default: the checkout's version]")
    add("--label", action="append", default=[], metavar="KEY=VALUE", help="one more label; repeatable")
    add(
        "--check",
        action="store_true",
        help="import everything inside the image again, if nothing changed too",
    )
    add("--offline", action="store_true", help="use what an earlier build fetched")
    add("--no-cache", action="store_true", help="make every layer again")
    add(
        "--locked",
        action="store_true",
        help="take Debian's packages only as deploy/image/packages.lock has them",
    )
    add("--lock", action="store_true", help="write that file with today's packages, and build nothing")
    options = parser.parse_args()
    labels = dict(label.split("=", 1) for label in options.label if "=" in label)
    if len(labels) != len(options.label):
        parser.error("--label: KEY=VALUE, each key once")
    wish = Wish(
        output=options.output.absolute(),
        cache=cache_folder(os.environ) / "images",
        version=options.version,
        name=options.tag,
        labels=labels,
        anew=options.no_cache,
        check=options.check,
        offline=options.offline,
        locked=options.locked,
    )
    return wish, options.lock


if __name__ == "__main__":
    sys.exit(main())
