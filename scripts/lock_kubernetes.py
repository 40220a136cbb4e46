"""Write the Go modules that pin a genuine Kubernetes: names, versions and checksums, nothing of its source.

A folder of tests/kubernetes/modules for each minor version in the table of `tonnage.cli.binaries`. Needs Go
and a network; takes about half a minute a version.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tonnage.cli.binaries import PATCHES

MODULES: Final = Path(__file__).resolve().parent.parent / "tests" / "kubernetes" / "modules"
ETCD: Final = "go.etcd.io/etcd/server/v3"
NEXT: Final = "\n\t"
PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")


def main() -> int:
    """Write the modules of the named minor versions, or of all."""
    parser = argparse.ArgumentParser(description="Write the Go modules that pin a genuine Kubernetes.")
    parser.add_argument("minors", nargs="*", metavar="MINOR", help=f"of {', '.join(PATCHES)} [default: all]")
    for minor in parser.parse_args().minors or PATCHES:
        lock(minor, PATCHES[minor])
    return 0


def lock(minor: str, version: str) -> None:
    """Resolve one version in a folder of its own and keep what was resolved."""
    print(f"Resolving Kubernetes {version} ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="tn-") as temporary:
        folder = Path(temporary)
        (folder / "go.mod").write_text("module tonnage.test/kubernetes\n")
        described = _go(folder, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}")
        (folder / "go.mod").write_text(module_text(Path(json.loads(described)["GoMod"]).read_text(), version))
        _go(folder, "mod", "tidy")
        target = MODULES / minor
        target.mkdir(parents=True, exist_ok=True)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(folder / name, target / name)


def module_text(upstream: str, version: str) -> str:
    """Our go.mod, from Kubernetes' own.

    Its staging modules stand there at v0.0.0 with a replacement inside the repository, which only its own
    build sees; published, they have the same minor and patch under major 0. etcd is of the version that it is
    made for.
    """
    staging = re.findall(r"^\s*(?:replace )?(\S+) => \./staging/", upstream, re.MULTILINE)
    staging += re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0$", upstream, re.MULTILINE)
    go = re.search(r"^go (\S+)$", upstream, re.MULTILINE)
    etcd = re.search(r"^\s*go\.etcd\.io/etcd/client/v3 (v\S+)", upstream, re.MULTILINE)
    if not staging or go is None or etcd is None:
        raise SystemExit(f"error: the go.mod of Kubernetes {version} is not built as expected")
    published = "v0" + version.removeprefix("1")
    blocks = {
        "require": [f"k8s.io/kubernetes v{version}", f"{ETCD} {etcd[1]}"],
        "replace": [f"{name} => {name} {published}" for name in sorted(set(staging))],
        "tool": [ETCD, *(f"k8s.io/kubernetes/cmd/{program}" for program in PROGRAMS)],
    }
    head = f"module tonnage.test/kubernetes\n\ngo {go[1]}\n"
    return head + "".join(f"\n{word} (\n\t{NEXT.join(rows)}\n)\n" for word, rows in blocks.items())


def _go(folder: Path, *arguments: str) -> str:
    ended = subprocess.run(["go", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"error: go {' '.join(arguments)} ended with status {ended.returncode}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
