"""`tonnage operator bundle`: what a bug report about the operator needs, redacted, in one file."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tonnage import __version__
from tonnage.cli.cluster import connected
from tonnage.cli.operator.namespaces import (
    agents_namespace_option,
    named_namespaces,
    operator_namespace_option,
    require_namespaces,
)
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.output_file import output_file
from tonnage.cli.terminal.output import emit, line, progress, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tonnage.adapters.snapshots.bundle import BundleIndex, BundleOrder

_PSEUDONYM_BYTES: Final = 32
_SHOWN: Final = 20


@click.command(
    help="Gather what a bug report about the operator needs: policies, statuses of nodes, objects, Events and"
    " logs of both namespaces.\n\nThe file is a tar archive; index.json lists what is in it and what could"
    " not be read. Secrets, data of ConfigMaps, values of variables, command lines and annotations are left"
    " out.",
    epilog=examples(
        "tonnage operator bundle --file report.tar.gz",
        "tonnage operator bundle --file report.tar.gz --redact names   # no names, no logs",
    ),
)
@click.option(
    "--file",
    "target",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write, compressed if it ends in .gz; only you may read it.",
)
@click.option(
    "--redact",
    type=click.Choice(["values", "names"]),
    default="values",
    help="Remove values that may hold secrets, or replace names with pseudonyms, too; logs are left out then"
    " [default: values].",
)
@click.option(
    "--log-lines",
    default=500,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 100_000),
    help="The last lines of each log, of 256 KiB at most.",
)
@operator_namespace_option("Where the operands and the ConfigMaps are that a ClusterPolicy names.")
@agents_namespace_option
@common_options(output=("text", "json", "yaml"), cluster=True)
def bundle(
    common: Common,
    target: Path,
    redact: str,
    log_lines: int,
    operator_namespace: str,
    agents_namespace: str,
) -> int:
    """Exit status 1 when a part could not be read."""
    from tonnage.adapters.snapshots.bundle import BundleOrder, index_json
    from tonnage.adapters.snapshots.redact import Level

    program = f"tonnage {__version__}"
    order = BundleOrder(
        *(Level(redact), datetime.now(UTC), program, operator_namespace, agents_namespace), log_lines
    )
    with output_file(target) as write:
        index = asyncio.run(_gathered(common, order, named_namespaces(), write))
    progress("")
    if common.output == "text":
        _show(index, target)
    else:
        emit(index_json(index, order), common.output)
    return 1 if index.missing else 0


def _show(index: BundleIndex, target: Path) -> None:
    logs = sum(str(entry["path"]).startswith("logs/") for entry in index.files)
    objects = 0
    for entry in index.files:
        counts = entry.get("objects")
        objects += sum(map(int, counts.values())) if isinstance(counts, dict) else 0  # type: ignore[arg-type]
    say(line(f"{target}: {objects:,} objects and {logs:,} logs; look through them before you share it."))
    for absence in index.missing[:_SHOWN]:
        say(line(f"not read: {absence['subject']} ({absence['reason']})"), err=True)
    if len(index.missing) > _SHOWN:
        say(f"not read: {len(index.missing) - _SHOWN} more, in index.json", err=True)


class _Archive:
    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.write = write


async def _gathered(
    common: Common, order: BundleOrder, named: Mapping[str, str], write: Callable[[bytes], object]
) -> BundleIndex:
    from tonnage.adapters.snapshots.bundle import gather
    from tonnage.adapters.snapshots.redact import Redactor

    redactor = Redactor(order.level, secrets.token_bytes(_PSEUDONYM_BYTES))
    async with connected(common) as api:
        await require_namespaces(api, named)
        return await gather(api, order, redactor, _Archive(write), _progress)


def _progress(kind: str, done: int, total: int) -> None:
    progress(f"{kind}: {done:,} of {total:,}")
