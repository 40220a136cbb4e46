"""`tonnage snapshot`: the cluster in a file, redacted, for `--snapshot` and for bug reports."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage import __version__
from tonnage.cli.access.unseen import nothing_seen, say_forbidden
from tonnage.cli.cluster import connected
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.output_file import output_file
from tonnage.cli.terminal.output import emit_json_lines, progress, say
from tonnage.model.errors import ApiError

if TYPE_CHECKING:
    from tonnage.adapters.snapshots.capture import Captured

_PSEUDONYM_BYTES = 32
_FORBIDDEN = "Forbidden"
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    help="Save the cluster's state to a file, redacted, for --snapshot and for bug reports.",
    epilog=examples(
        "tonnage snapshot --file cluster.jsonl.gz",
        "tonnage snapshot --file report.jsonl.gz --redact names   # to share",
        "tonnage snapshot | tonnage status --snapshot -",
    ),
)
@click.option(
    "--file",
    "target",
    type=_FILE,
    metavar="FILE",
    help="File to write, compressed if it ends in .gz [default: stdout].",
)
@click.option("-o", "--output", "older_target", type=_FILE, metavar="FILE", hidden=True)
@click.option(
    "--redact",
    type=click.Choice(["values", "names"]),
    default="values",
    help="Remove values that may hold secrets, or replace names with pseudonyms, too [default: values].",
)
@common_options(cluster=True, namespace=True)
def command(common: Common, target: Path | None, older_target: Path | None, redact: str) -> int:
    """Exit status 1 when a part of the cluster could not be read. `older_target`: `-o`, as it was before."""
    target = target or older_target
    with _opened(target) as write:
        captured = asyncio.run(_captured(common, redact, write))
    progress("")
    counted = ", ".join(f"{n.objects:,} {kind}" for kind, n in captured.counts.items() if n.objects)
    say(f"Captured {counted}.", err=True)
    _say_missing(captured)
    return 1 if captured.missing else 0


def _say_missing(captured: Captured) -> None:
    for absence in captured.missing:
        if absence.reason != _FORBIDDEN:
            say(f"not read: {absence.kind} ({absence.reason})", err=True)
    scopes = {absence.kind: absence.namespace for absence in captured.missing if absence.namespace}
    forbidden = [absence.kind for absence in captured.missing if absence.reason == _FORBIDDEN]
    say_forbidden(forbidden, scopes, "snapshot")


async def _captured(common: Common, redact: str, write: Callable[[bytes], object]) -> Captured:
    from tonnage.adapters.snapshots.capture import Order, capture
    from tonnage.adapters.snapshots.redact import Level, Redactor

    program = f"tonnage {__version__}"
    async with connected(common) as api:
        order = Order(
            Level(redact), datetime.now(UTC), program, common.namespace or "", api.namespace or "default"
        )
        redactor = Redactor(order.level, secrets.token_bytes(_PSEUDONYM_BYTES))
        try:
            return await capture(api, order, redactor, write, _progress)
        except ApiError as error:
            if error.reason == _FORBIDDEN:
                raise nothing_seen(error, "snapshot", order.namespace or order.fallback) from None
            raise


def _progress(kind: str, done: int, total: int) -> None:
    progress(f"{kind}: {done:,} of {total:,}")


@contextmanager
def _opened(target: Path | None) -> Iterator[Callable[[bytes], object]]:
    if target is None or str(target) == "-":
        yield emit_json_lines()
        return
    with output_file(target) as write:
        yield write
