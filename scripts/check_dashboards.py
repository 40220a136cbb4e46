"""Holds dashboards against Grafana's own types: npm's @grafana/schema, by the compiler of TypeScript.

A dashboard and its panels have closed types there. `options` and `custom` of a panel are open records,
and are held against the types of the panel's own schema. Both packages lie in the cache folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tonnage.cli.locations.folders import cache_folder
from tonnage.diagnose.monitoring.dashboards import dashboard_json
from tonnage.model.catalog.dashboards import dashboards
from tonnage.model.errors import ConfigError, Problem

PACKAGES: Final = ("@grafana/schema@13.2.3", "typescript@5.9.3")
_SCHEMAS: Final = {
    "timeseries": "TimeSeries",
    "stat": "Stat",
    "gauge": "Gauge",
    "bargauge": "BarGauge",
    "table": "Table",
    "state-timeline": "StateTimeline",
}
"""By the kind of a panel what its schema is called."""
_PATH: Final = "@grafana/schema/dist/esm/raw/composable/{folder}/panelcfg/x/{name}PanelCfg_types.gen"
_HEAD: Final = """\
import type { Dashboard } from '@grafana/schema';
// JSON has values where TypeScript has enums.
type Value = number | boolean | null | undefined;
type Plain<T> = unknown extends T ? T : T extends string ? `${T}` : T extends Value ? T
  : { [K in keyof T]: Plain<T[K]> };
"""


def typed_source(boards: Sequence[Mapping[str, Any]]) -> str:
    """A program that the compiler takes if every dashboard is one of Grafana's."""
    lines = [_HEAD]
    for kind, name in _SCHEMAS.items():
        path = _PATH.format(folder=kind.replace("-", ""), name=name)
        lines.append(f"import type {{ Options as {name}Options }} from '{path}';")
        if kind in ("timeseries", "table"):
            lines.append(f"import type {{ FieldConfig as {name}Field }} from '{path}';")
    for number, board in enumerate(boards):
        lines.append(f"export const board{number}: Plain<Dashboard> = {json.dumps(board)};")
        lines += _of_panels(board, number)
    return "\n".join(lines) + "\n"


def _of_panels(board: Mapping[str, Any], number: int) -> Iterator[str]:
    for panel in board["panels"]:
        label, schema = f"{number}_{panel['id']}", _SCHEMAS[panel["type"]]
        options = json.dumps(panel["options"])
        yield f"export const options{label}: Partial<Plain<{schema}Options>> = {options};"
        if custom := panel["fieldConfig"]["defaults"].get("custom"):
            yield f"export const custom{label}: Plain<{schema}Field> = {json.dumps(custom)};"


def complaints(boards: Sequence[Mapping[str, Any]]) -> str:
    """What the compiler has against the dashboards; empty if nothing.

    Raises:
        ConfigError: npm cannot fetch the packages.
    """
    packages = _packages(cache_folder(os.environ) / "grafana")
    with tempfile.TemporaryDirectory(prefix="tn-", dir=packages) as folder:
        source = Path(folder, "dashboards.ts")
        source.write_text(typed_source(boards))
        compiler = packages / "node_modules" / "typescript" / "bin" / "tsc"
        options = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext")
        ended = subprocess.run(
            ["node", compiler, *options, source], cwd=folder, capture_output=True, text=True, check=False
        )
        return ended.stdout + ended.stderr if ended.returncode else ""


def _packages(folder: Path) -> Path:
    """Both packages, unpacked once; nothing of them is run but the compiler."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    done = folder / "done"
    wanted = " ".join(PACKAGES)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.is_file() and done.read_text() == wanted:
            return folder
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--force"]
        # What the schema's code would need to run is not needed to read its types.
        ended = subprocess.run(
            [*command, "--legacy-peer-deps", *PACKAGES],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise ConfigError(
                Problem("npm cannot install the types of Grafana", str(folder), ended.stderr[-1000:])
            )
        done.write_text(wanted)
    return folder


def main() -> int:
    """Print what is wrong with the dashboards of the table."""
    said = complaints([dashboard_json(board) for board in dashboards()])
    print(said, end="", file=sys.stderr)
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
