"""Writes the chart's CustomResourceDefinitions out of documents and catalogue; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import yaml

from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS, labelled_definition
from tonnage.model.json import JsonObject

_FILES: Final = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "tonnage" / "files"
_OURS: Final = _FILES / "crds"
_NVIDIAS: Final = _FILES.parent / "crds"
_HEAD: Final = "# Written by scripts/generate_crds.py from tonnage.documents.node.gpu_status.\n"
_NVIDIAS_HEAD: Final = "# Written by scripts/generate_crds.py from tonnage.model.catalog.nvidia_kinds.\n"


def files() -> dict[Path, str]:
    """What the folders hold, by path."""
    ours = node_gpu_status_crd()
    nvidias = [labelled_definition(plural) for plural in DEFINITIONS]
    return {
        _OURS / f"{_name(ours)}.yaml": _HEAD + _dumped(ours),
        **{_NVIDIAS / f"{_name(crd)}.yaml": _NVIDIAS_HEAD + _dumped(crd) for crd in nvidias},
    }


def _dumped(crd: JsonObject) -> str:
    return yaml.safe_dump(crd, sort_keys=False, width=110)


def _name(crd: JsonObject) -> str:
    metadata = crd["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def main() -> int:
    """Write the files, or with `--check` say which differ."""
    wanted = files()
    paths = (path for folder in (_OURS, _NVIDIAS) for path in folder.glob("*.yaml"))
    there = {path: path.read_text(encoding="utf-8") for path in paths}
    stale = sorted(path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path))
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} differs from its model; run python scripts/generate_crds.py", file=sys.stderr)
        return 1 if stale else 0
    for folder in (_OURS, _NVIDIAS):
        folder.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
