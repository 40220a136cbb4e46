"""Write the Go modules that pin a genuine Kubernetes and its nodes: names, versions and checksums, no source.

A folder of tests/kubernetes/modules for each minor version in the table of `tonnage.cli.locations.binaries`,
and for each module of the container runtime. Needs Go and a network; takes about half a minute a version.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from scripts.go_modules import ETCD, KUBERNETES, MODULES, RECIPES, Recipe
from tonnage.cli.locations.binaries import PATCHES, RUNTIME

NEXT: Final = "\n\t"


def main() -> int:
    """Write the named modules, or all."""
    runtime = {module.name: module.version for module in RUNTIME}
    names = [*PATCHES, *runtime]
    parser = argparse.ArgumentParser(description="Write the Go modules that pin a genuine Kubernetes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)} [default: all]")
    wanted: Sequence[str] = parser.parse_args().names or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}")
    for name in wanted:
        if name in PATCHES:
            lock(name, "k8s.io/kubernetes", PATCHES[name], kubernetes_text)
        else:
            text = partial(runtime_text, name, RECIPES[name])
            lock(name, RECIPES[name].path, runtime[name], text)
    return 0


def lock(name: str, path: str, version: str, text: Callable[[str, str], str]) -> None:
    """Resolve one module in a folder of its own and keep what was resolved.

    `text` makes our go.mod from upstream's and the version.
    """
    print(f"Resolving {path} {version} ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="tn-") as temporary:
        folder = Path(temporary)
        (folder / "go.mod").write_text("module tonnage.test/download\n")
        described = _go(folder, "mod", "download", "-json", f"{path}@v{version}")
        (folder / "go.mod").write_text(text(Path(json.loads(described)["GoMod"]).read_text(), version))
        _go(folder, "mod", "tidy")
        target = MODULES / name
        target.mkdir(parents=True, exist_ok=True)
        for file in ("go.mod", "go.sum"):
            shutil.copyfile(folder / file, target / file)


def kubernetes_text(upstream: str, version: str) -> str:
    """Our go.mod, from Kubernetes' own.

    Its staging modules stand there at v0.0.0 with a replacement inside the repository, which only its own
    build sees; published, they have the same minor and patch under major 0. etcd is of the version that it is
    made for.
    """
    staging = re.findall(r"^\s*(?:replace )?(\S+) => \./staging/", upstream, re.MULTILINE)
    staging += re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0$", upstream, re.MULTILINE)
    etcd = re.search(r"^\s*go\.etcd\.io/etcd/client/v3 (v\S+)", upstream, re.MULTILINE)
    if not staging or etcd is None:
        raise SystemExit(f"error: the go.mod of Kubernetes {version} is not built as expected")
    published = "v0" + version.removeprefix("1")
    blocks = {
        "require": [f"k8s.io/kubernetes v{version}", f"{ETCD} {etcd[1]}"],
        "replace": [f"{name} => {name} {published}" for name in sorted(set(staging))],
        "tool": list(KUBERNETES.values()),
    }
    return _module_text("kubernetes", upstream, blocks)


def runtime_text(name: str, recipe: Recipe, upstream: str, version: str) -> str:
    """Our go.mod for a module of the container runtime: what it requires itself holds."""
    if "=>" in upstream:
        raise SystemExit(f"error: the go.mod of {recipe.path} {version} replaces modules")
    blocks = {"require": [f"{recipe.path} v{version}"], "tool": list(recipe.packages.values())}
    return _module_text(name, upstream, blocks)


def _module_text(name: str, upstream: str, blocks: Mapping[str, Sequence[str]]) -> str:
    """A go.mod for upstream's version of Go."""
    go = re.search(r"^go (\S+)$", upstream, re.MULTILINE)
    if go is None:
        raise SystemExit(f"error: the go.mod of {name} names no version of Go")
    head = f"module tonnage.test/{name}\n\ngo {go[1]}\n"
    return head + "".join(f"\n{word} (\n\t{NEXT.join(rows)}\n)\n" for word, rows in blocks.items())


def _go(folder: Path, *arguments: str) -> str:
    ended = subprocess.run(["go", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"error: go {' '.join(arguments)} ended with status {ended.returncode}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
