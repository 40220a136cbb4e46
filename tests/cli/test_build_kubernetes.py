"""`make kubernetes-binaries`, with a Go that pretends: what is built, kept, said and left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.build_kubernetes import build_missing
from scripts.find_go import find_go
from scripts.go_build import TELL_EVERY_S, Progress, executable_name
from scripts.go_modules import CDI_HOOK, MODULES, cdi_hook_module, modules
from scripts.libseccomp import c_toolchain
from tonnage.cli.locations.binaries import CONTROL_PLANE, NODE, PATCHES
from tonnage.model.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
GO = """
import json, os, pathlib, sys, time
if sys.argv[1] == "env":
    sys.exit(print(os.environ.get("FAKE_VERSION", "go1.99.0")))
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
packages = sys.argv[sys.argv.index("-o") + 2 :]
with open(os.environ["FAKE_LOG"], "a") as log:
    told = {name: os.environ[name] for name in ("GOCACHE", "GOMODCACHE", "CGO_ENABLED", "GOTMPDIR")}
    print(json.dumps({"arguments": sys.argv[1:], "folder": os.getcwd(), **told}), file=log)
pathlib.Path(os.environ["GOCACHE"]).mkdir(exist_ok=True)
for package in packages:
    name = package.rpartition("/")[2]
    if name == os.environ.get("FAKE_HANG"):
        (out / "half").write_text("")
        print("hanging", file=sys.stderr, flush=True)
        time.sleep(600)
    if name == os.environ.get("FAKE_FAIL"):
        sys.exit(os.environ["FAKE_SAYS"])
    print(package, file=sys.stderr, flush=True)
    (out / name).touch(mode=0o755)
"""


class Bench:
    """A cache and a Go of our own."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache" / "tonnage" / "kubernetes"
        self.log = folder / "log"
        self.log.touch()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "go").write_text(f"#!{sys.executable} -SE\n{GO}")
        (programs / "go").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "KUBE"))}
        self.environment = {
            **kept,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "FAKE_LOG": str(self.log),
        }
        self.environment.pop("TONNAGE_KUBERNETES_BIN", None)

    def start(self, *programs: str, **environment: str) -> subprocess.Popen[str]:
        # Who runs the tests in the background hands ignored signals on.
        heeding = ["env", "--default-signal=HUP,INT,TERM"]
        return subprocess.Popen(
            [*heeding, sys.executable, "-m", "scripts.build_kubernetes", *programs],
            cwd=ROOT,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build(self, *programs: str, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*programs, **environment)
        said, complained = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, said, complained)

    def calls(self) -> list[Mapping[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def there(self) -> set[str]:
        """What the cache holds, without the lock."""
        found = (path for path in self.cache.rglob("*") if path.is_file() and path.name != ".lock")
        return {str(path.relative_to(self.cache)) for path in found}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_what_is_missing_is_built_once_and_leaves_no_caches(bench: Bench) -> None:
    first = bench.build("bridge", "ctr", "containerd")
    assert first.returncode == 0, first.stderr
    assert bench.there() == {"cni-v1.9.1/bridge", "containerd-v2.2.9/containerd", "containerd-v2.2.9/ctr"}
    assert [path.name for path in bench.cache.iterdir() if path.name.startswith(".")] == [".lock"]
    assert [Path(call["folder"]).name for call in bench.calls()] == ["cni", "containerd"]
    again = bench.build("bridge", "ctr", "containerd", "containerd-shim-runc-v2")
    assert again.returncode == 0
    assert len(bench.calls()) == 3
    assert bench.calls()[-1]["arguments"][-1].endswith("/cmd/containerd-shim-runc-v2")


def test_the_programs_of_a_module_are_built_in_one_go(bench: Bench) -> None:
    assert bench.build("containerd", "containerd-shim-runc-v2", "ctr").returncode == 0
    (call,) = bench.calls()
    assert [word.rpartition("/")[2] for word in call["arguments"][-3:]] == [
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
    ]
    assert "-tags=no_btrfs,no_devmapper,no_zfs" in call["arguments"]
    assert any("/version.Version=v2.2.9" in word for word in call["arguments"])
    assert call["CGO_ENABLED"] == "0"


def test_the_callers_caches_are_used_and_stay(bench: Bench, tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert bench.build("bridge", GOCACHE=str(own)).returncode == 0
    (call,) = bench.calls()
    assert call["GOCACHE"] == str(own)
    assert own.is_dir()
    assert call["GOMODCACHE"].startswith(call["GOTMPDIR"])


def test_the_version_is_chosen_by_the_environment(bench: Bench) -> None:
    assert bench.build("kubelet", KUBERNETES_VERSION="1.37").returncode == 0
    assert bench.there() == {f"v{PATCHES['1.37']}/kubelet"}
    assert f"gitVersion=v{PATCHES['1.37']}" in " ".join(bench.calls()[0]["arguments"])


def test_a_named_folder_is_used_instead(bench: Bench, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "ctr").touch(mode=0o755)
    assert f"ctr: {own}" in bench.build("ctr", TONNAGE_KUBERNETES_BIN=str(own)).stdout
    refused = bench.build(TONNAGE_KUBERNETES_BIN=str(own))
    assert refused.returncode == 2
    assert "missing: etcd" in refused.stderr
    assert bench.calls() == []


def test_one_that_fails_does_not_keep_the_others_from_their_place(bench: Bench) -> None:
    failed = bench.build("bridge", "loopback", "ctr", FAKE_FAIL="loopback", FAKE_SAYS="dial tcp: refused")
    assert failed.returncode == 2
    assert bench.there() == {"cni-v1.9.1/bridge", "containerd-v2.2.9/ctr"}
    assert "error: CNI plugins 1.9.1 cannot be built" in failed.stderr
    assert "why: github.com/containernetworking/plugins/plugins/main/bridge" in failed.stderr
    assert "remedy: a network that reaches Go's module proxy" in failed.stderr
    assert failed.stderr.count("error:") == 1


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["ended", "Ctrl-C", "left"]
)
def test_what_is_linked_when_it_is_interrupted_stays(bench: Bench, how: signal.Signals) -> None:
    with bench.start("bridge", "loopback", FAKE_HANG="loopback") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "bridge is ready" in line:
                break
        process.send_signal(how)
        process.communicate(timeout=60)
    assert process.returncode == 128 + how
    assert bench.there() == {"cni-v1.9.1/bridge"}
    assert not (bench.cache / ".build").exists()


def test_what_a_killed_build_left_is_put_to_use(bench: Bench) -> None:
    work = bench.cache / ".build"
    (work / "cache").mkdir(parents=True)
    for module, program in (("cni-v1.9.1", "bridge"), ("cni-v1.0.0", "loopback")):
        (work / f"out-{module}").mkdir()
        (work / f"out-{module}" / program).touch(mode=0o755)
    assert bench.build("bridge", "loopback").returncode == 0
    (call,) = bench.calls()
    assert call["arguments"][-1].endswith("/loopback"), "one of another version is not taken for it"
    assert not call["arguments"][-2].endswith("/bridge")
    assert not work.exists()


def test_a_program_that_nobody_knows_is_refused(bench: Bench) -> None:
    refused = bench.build("kubelet", "kube-proxy")
    assert refused.returncode == 2
    assert "unknown: kube-proxy" in refused.stderr


def test_too_little_room_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"too little room to build .*Kubernetes 1\.35") as refused:
        build_missing(modules(environment, "1.35"), (*CONTROL_PLANE, *NODE), environment)
    assert "1 GiB are free, it takes " in refused.value.problems[0].why


def test_an_old_go_is_left_alone(bench: Bench, tmp_path: Path) -> None:
    wanted = modules(bench.environment, "1.35")
    found = find_go(wanted, {**bench.environment, "FAKE_VERSION": "go1.26.1"}, tmp_path)
    assert found == tmp_path / "bin" / "go"
    (tmp_path / "uv").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "python"))  # beside a uv that cannot run
        with pytest.raises(ConfigError, match=r"no Go 1\.25\.\d+ to build Kubernetes with") as refused:
            find_go(wanted, {**bench.environment, "FAKE_VERSION": "go1.24.9"}, tmp_path)
    assert "go.dev/dl" in refused.value.problems[0].remedy


def test_every_program_comes_from_a_tool_of_its_module() -> None:
    home = {"HOME": "/home/me"}
    built = (*modules(home, "1.35"), cdi_hook_module(home))
    assert {name for module in built for name in module.packages} == {*CONTROL_PLANE, *NODE, CDI_HOOK}
    for module in built:
        text = (module.source / "go.mod").read_text()
        tools = text[text.index("\ntool ") :].replace("(", " ").split()
        assert set(module.packages.values()) <= set(tools), module.title


@pytest.mark.parametrize("minor", PATCHES)
def test_no_two_programs_of_a_module_are_called_the_same(minor: str) -> None:
    for module in modules({"HOME": "/home/me"}, minor):
        assert len({executable_name(package) for package in module.packages.values()}) == len(module.packages)
        assert module.source.parent == MODULES


def test_progress_is_told_now_and_then() -> None:
    now, lines = [0.0], list[str]()
    progress = Progress("Kubernetes", 2, lambda: now[0], lines.append)
    for _ in range(4):
        now[0] += TELL_EVERY_S / 2
        progress.packages += 100
        progress.tell()
    progress.finished("etcd")
    assert lines == [
        "  Kubernetes: 200 packages compiled, 0 of 2 programs, 15 s",
        "  Kubernetes: 400 packages compiled, 0 of 2 programs, 30 s",
        "  Kubernetes: etcd is ready (1 of 2), 30 s",
    ]


class Machine:
    """What is on PATH, each a program that prints one line."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))

    def has(self, program: str, says: str) -> None:
        (self._folder / program).write_text(f"#!/bin/sh\necho '{says}'\n")
        (self._folder / program).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "bin", monkeypatch)


@pytest.mark.parametrize(
    ("libc", "archive", "static"),
    [("/usr/lib/libc.a", True, True), ("libc.a", True, False), ("/usr/lib/libc.a", False, False)],
    ids=["with both archives", "without the C library's", "without libseccomp's"],
)
def test_runc_is_static_when_the_archives_are_there(
    machine: Machine, tmp_path: Path, libc: str, archive: bool, static: bool
) -> None:
    machine.has("gcc", libc)
    machine.has("pkg-config", str(tmp_path))
    if archive:
        (tmp_path / "libseccomp.a").touch()
    tools = c_toolchain({}, tmp_path)
    assert tools.static is static
    assert tools.environment == {"CGO_ENABLED": "1"}, "pkg-config tells Go the rest"


def test_no_compiler_is_an_error_with_its_remedy(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without a C compiler") as refused:
        c_toolchain({}, tmp_path)
    assert "apt-get install gcc" in refused.value.problems[0].remedy


def test_no_libseccomp_is_an_error_with_its_remedy(machine: Machine, tmp_path: Path) -> None:
    machine.has("gcc", "libc.a")
    with pytest.raises(ConfigError, match="without libseccomp") as refused:
        c_toolchain({"XDG_CACHE_HOME": str(tmp_path)}, tmp_path)
    problem = refused.value.problems[0]
    assert problem.why == "it has no apt-get and no dpkg-deb, so it is neither Debian nor Ubuntu"
    assert "apt-get install libseccomp-dev" in problem.remedy
