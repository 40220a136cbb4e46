"""Where the programs of a genuine Kubernetes are looked for, and what is said when they are not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.cli.locations.binaries import (
    CONTROL_PLANE,
    NODE,
    PATCHES,
    RUNTIME,
    RuntimeModule,
    cached_folder,
    chosen_minor,
    find_binaries,
    module_folder,
)
from tonnage.model.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
MODULES = ROOT / "tests" / "kubernetes" / "modules"


def _put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o700)
    return folder


def test_a_named_folder_comes_before_the_cache(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    built = _put(cached_folder(cache, "1.35"), *CONTROL_PLANE)
    own = _put(tmp_path / "own", *CONTROL_PLANE)
    assert find_binaries(cache).folder == built
    assert find_binaries({**cache, "TONNAGE_KUBERNETES_BIN": str(own)}).folder == own


def test_what_is_missing_is_said_with_the_remedy(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    _put(cached_folder(cache, "1.35"), "etcd")
    (cached_folder(cache, "1.35") / "kube-scheduler").touch(mode=0o600)
    with pytest.raises(ConfigError) as refused:
        find_binaries(cache)
    problem = refused.value.problems[0]
    assert problem.where == str(tmp_path / "tonnage/kubernetes/v1.35.8")
    assert problem.why == "missing: kube-apiserver, kube-controller-manager, kube-scheduler"
    assert problem.remedy.startswith("make kubernetes-binaries in a checkout")
    assert "TONNAGE_KUBERNETES_BIN" in problem.remedy


def test_the_remedy_names_the_version(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"make kubernetes-binaries KUBERNETES_VERSION=1\.37"):
        find_binaries({"XDG_CACHE_HOME": str(tmp_path)}, minor="1.37")


def test_an_empty_named_folder_is_not_answered_with_the_cache(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unset TONNAGE_KUBERNETES_BIN"):
        find_binaries({"TONNAGE_KUBERNETES_BIN": str(tmp_path), "HOME": str(tmp_path)})


def test_a_second_kubernetes_version_shares_the_container_runtime(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    for minor in ("1.34", "1.37"):
        _put(cached_folder(cache, minor), *CONTROL_PLANE, "kubelet")
    for module in RUNTIME:
        _put(module_folder(cache, module), *module.programs)
    everything = (*CONTROL_PLANE, *NODE)
    older, newer = (find_binaries(cache, minor=minor, programs=everything) for minor in ("1.34", "1.37"))
    assert all(binaries.path(name).is_file() for binaries in (older, newer) for name in everything)
    shared = {name for name in everything if older.path(name) == newer.path(name)}
    assert shared == set(NODE) - {"kubelet"}


def test_a_named_folder_holds_the_programs_of_a_node_too(tmp_path: Path) -> None:
    own = _put(tmp_path / "own", *CONTROL_PLANE, *NODE)
    found = find_binaries({"TONNAGE_KUBERNETES_BIN": str(own)}, programs=(*CONTROL_PLANE, *NODE))
    assert {found.path(name).parent for name in (*CONTROL_PLANE, *NODE)} == {own}


def test_every_folder_that_lacks_a_program_is_named(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    _put(module_folder(cache, RUNTIME[0]), "containerd", "ctr")
    with pytest.raises(ConfigError) as refused:
        find_binaries(cache, programs=NODE)
    problem = refused.value.problems[0]
    assert problem.why.startswith("missing: kubelet, containerd-shim-runc-v2, runc, ")
    names = [Path(where).name for where in problem.where.split(", ")]
    assert names == [f"v{PATCHES['1.35']}", *(f"{module.name}-v{module.version}" for module in RUNTIME)]


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "runc").mkdir()
    with pytest.raises(ConfigError, match="missing: runc"):
        find_binaries({"TONNAGE_KUBERNETES_BIN": str(tmp_path)}, programs=["runc"])


@pytest.mark.parametrize(
    ("named", "wanted", "minor"),
    [
        ("", "1.36", "1.36"),
        ("1.34", "1.35", "1.34"),
        ("v1.35", "1.37", "1.35"),
        (PATCHES["1.35"], "1.37", "1.35"),
    ],
)
def test_the_environment_chooses_the_version(named: str, wanted: str, minor: str) -> None:
    assert chosen_minor({"KUBERNETES_VERSION": named}, wanted) == minor


@pytest.mark.parametrize("named", ["1.12", "1.35.999", "latest", "1"])
def test_a_version_that_is_not_pinned_is_refused(named: str) -> None:
    with pytest.raises(ConfigError, match="KUBERNETES_VERSION: unsupported Kubernetes version"):
        chosen_minor({"KUBERNETES_VERSION": named})


@pytest.mark.parametrize("minor", PATCHES)
def test_the_modules_pin_the_version_of_the_table(minor: str) -> None:
    module = (MODULES / minor / "go.mod").read_text()
    version = PATCHES[minor]
    assert re.search(rf"^\tk8s\.io/kubernetes v{re.escape(version)}\b", module, re.MULTILINE)
    published = "v0" + version.removeprefix("1")
    staging = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", module, re.MULTILINE)
    assert len(staging) > 25
    assert {(name == target, given) for name, target, given in staging} == {(True, published)}
    sums = (MODULES / minor / "go.sum").read_text()
    assert f"\nk8s.io/kubernetes v{version} h1:" in sums


PATHS = {
    "containerd": "github.com/containerd/containerd/v2",
    "runc": "github.com/opencontainers/runc",
    "cni": "github.com/containernetworking/plugins",
}


@pytest.mark.parametrize("module", RUNTIME, ids=lambda module: module.name)
def test_the_modules_pin_the_container_runtime_of_the_table(module: RuntimeModule) -> None:
    folder, path = MODULES / module.name, PATHS[module.name]
    text = (folder / "go.mod").read_text()
    assert re.search(rf"^\t{re.escape(path)} v{re.escape(module.version)}\b", text, re.MULTILINE)
    tools = text[text.index("tool ") :].split()
    assert {tool.rpartition("/")[2] for tool in tools if tool.startswith(path)} == set(module.programs)
    assert f"{path} v{module.version} h1:" in (folder / "go.sum").read_text()


def test_the_page_names_the_versions_and_programs_of_the_table() -> None:
    page = (ROOT / "docs" / "how-to" / "run-on-genuine-kubernetes.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    etcd = re.search(
        r"^\tgo\.etcd\.io/etcd/server/v3 v(\S+)", (MODULES / "1.35" / "go.mod").read_text(), re.MULTILINE
    )
    assert etcd is not None
    (control_plane,) = (row for row in rows if "`etcd`" in row)
    assert f"Kubernetes {PATCHES['1.35']}, etcd {etcd[1]} " in control_plane
    for module in RUNTIME:
        (row,) = (row for row in rows if f"| `{module.programs[0]}`" in row)
        assert f" {module.version} |" in row
        assert all(f"`{program}`" in row for program in module.programs)
