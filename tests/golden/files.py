"""Sessions over files: manifests, configurations, layouts, and what is no such thing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from golden.sessions import Command, Session

ROOT: Final = Path(__file__).resolve().parents[2]
_LINT: Final = Path("tests/diagnose/lint")
_BAD: Final = Path("tests/golden/bad")
_DURATIONS: Final = {r'"seconds": [0-9.e-]+': '"seconds": …'}


def file_sessions() -> Iterator[Session]:
    """By folder of files."""
    for folder in sorted(path for path in (ROOT / _LINT).iterdir() if list(path.glob("*.yaml"))):
        yield _session(f"lint/{folder.name}", [line for path in _files(folder) for line in _lint(path)])
    labs = sorted((ROOT / "labs").iterdir())
    yield _session("lint/labs", [f"lint {folder.relative_to(ROOT)}" for folder in labs])
    shown = _session("labs-shown", [f"lab show {folder.name}" for folder in labs if folder.is_dir()])
    yield replace(shown, hidden={re.escape(str(ROOT)): "{root}"})
    yield _session("labs-converted", list(_converted(labs)))
    yield _session("lint/documents", [f"lint {path}" for path in _files(ROOT / "tests/data/documents")])
    yield _session("lint/how-tos", [f"lint {path} -o json" for path in _files(ROOT / "docs/how-to")])
    yield _session("mig", list(_mig()))
    yield replace(_session("simulate/trace", list(_trace())), hidden=_DURATIONS)
    yield _session("simulate/alternatives", list(_alternatives()))
    yield _session("cdi", list(_cdi()))
    yield _session("claims", list(_claims()))
    yield _session("bad-input", [line for path in _bad_files() for line in _asked_of(path)])


def _session(name: str, lines: list[str]) -> Session:
    return Session(name, ROOT, tuple(Command(tuple(line.split())) for line in lines))


def _files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in folder.glob("*.yaml") if path.name != "cluster.yaml")


def _lint(path: Path) -> Iterator[str]:
    cluster = path.with_name("cluster.yaml")
    of = f" --snapshot {cluster}" if (ROOT / cluster).exists() else ""
    yield f"lint {path}{of}"
    yield f"lint {path}{of} -o json"
    yield f"lint {path}{of} -o sarif"
    yield f"lint {path}{of} --fix --dry-run"


def _converted(labs: list[Path]) -> Iterator[str]:
    """No lab has an older claim: the text of one is shown, and of the others that it stays as it is."""
    yield from (f"convert {path}" for path in _files(ROOT / "labs/dra-sharing") if path.name != "lab.yaml")
    for folder in labs:
        if paths := _files(folder):
            yield f"convert {' '.join(map(str, paths))} --diff"


def _mig() -> Iterator[str]:
    for product in ("A100-40", "A100-80", "A30", "H100-80", "H200", "B200", "no-such-gpu"):
        yield f"mig profiles --product {product}"
        yield f"mig layouts --product {product}"
        yield f"mig plan --product {product} --layout all-balanced"
    yield "mig profiles --product A100-80 -o json"
    yield "mig layouts --product A30 --media -o json"
    yield "mig plan --product A100-80 --layout 3g.40gb:1,2g.20gb:1,1g.10gb:2 -o json"
    yield "mig plan --product A100-80 --layout 3g.40gb:3"
    yield "mig plan --product A100-80 --gpus 4 docs/how-to/mig/mig-parted.yaml"
    yield "mig plan --product A100-80 --demand 10x9800Mi --demand 2x40000Mi -o yaml"
    yield "mig lint docs/how-to/mig/mig-parted.yaml"
    yield f"mig lint {_LINT}/mig_parted/bad.yaml {_LINT}/mig_parted/config-map.yaml -o json"


def _trace() -> Iterator[str]:
    files = "docs/how-to/trace/machines.csv docs/how-to/trace/jobs.csv"
    yield f"simulate trace {files}"
    yield f"simulate trace {files} --policy FGD --policy BestFit --seeds 3 -o json"


def _alternatives() -> Iterator[str]:
    for cluster in ("tests/diagnose/lint/devices/cluster.yaml", "tests/diagnose/lint/sharing/cluster.yaml"):
        yield f"simulate -f docs/how-to/layouts/alternatives.yaml --snapshot {cluster}"
        yield f"status -o yaml --snapshot {cluster}"


def _claims() -> Iterator[str]:
    """What brings manifests to claims, and older claims to today's version."""
    cluster = f"--snapshot {_LINT}/devices/cluster.yaml"
    for path in ("docs/how-to/counts-gpus.yaml", "labs/dra-migrate/train.yaml", f"{_LINT}/devices/bad.yaml"):
        yield f"migrate dra {path} --no-cluster"
        yield f"migrate dra {path} --diff {cluster}"
        yield f"migrate dra {path} -o json {cluster}"
        yield f"migrate dra {path} -o patch --no-cluster"
    for path in (f"{_LINT}/claims/bad.yaml", "tests/diagnose/matrix/12-no-such-version.yaml"):
        yield f"convert {path}"
        yield f"convert {path} --diff"
        yield f"convert {path} -o json"
    for bad in _bad_files():
        yield f"convert {bad}"
        yield f"migrate dra {bad} --no-cluster"
        yield f"claims --snapshot {bad}"


def _cdi() -> Iterator[str]:
    yield f"cdi validate {_BAD}/cdi.yaml"
    yield f"cdi validate {_BAD}/cdi.yaml -o json"
    yield f"cdi validate {_BAD}"
    yield f"cdi generate --devices scenario:{_BAD}/scenario.yaml"
    yield f"runtime plan --root {_BAD} --runtime containerd://1.7.24"
    yield f"runtime plan --root {_BAD} --runtime containerd://2.0.0 -o json"
    yield f"runtime plan --root {_BAD} --runtime cri-o://1.31.5"
    yield f"runtime plan --root {_BAD} --runtime nothing://1"
    yield f"runtime nri --root {_BAD} --runtime containerd://1.7.24"
    yield f"runtime undo --root {_BAD} --dry-run"
    yield f"runtime apply --root {_BAD} --runtime containerd://2.0.0 --dry-run"
    yield f"runtime apply --root {_BAD} --runtime nothing://1"
    yield f"cdi char-links --root {_BAD} --dry-run"
    yield f"cdi char-links --root {_BAD}/absent --dry-run"


def _bad_files() -> list[Path]:
    return [*sorted(path.relative_to(ROOT) for path in (ROOT / _BAD).iterdir()), _BAD / "absent.yaml"]


def _asked_of(path: Path) -> Iterator[str]:
    cluster = f"--snapshot {_LINT}/devices/cluster.yaml"
    yield f"lint {path}"
    yield f"lint {path} -o json"
    yield f"explain -f {path} {cluster}"
    yield f"status --snapshot {path}"
    yield f"status --kubeconfig {path}"
    yield f"mig lint {path}"
    yield f"mig plan --product A100-80 {path}"
    yield f"simulate -f {path} {cluster}"
    yield f"simulate --add-workload {path} {cluster}"
    yield f"simulate trace {path} {path}"
    yield f"explain pod x --scheduler-config {path} {cluster}"
    yield f"topo --devices scenario:{path}"
    yield f"lab run {path}"
    yield f"up --scenario {path} --detach"
    yield f"doctor --devices scenario:{path} --root {_BAD}"
