"""The Go modules of tests/kubernetes/modules: what is built from each, with which flags, where it is put."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.cli.locations.binaries import PATCHES, RUNTIME, RuntimeModule, cached_folder, module_folder
from tonnage.cli.locations.folders import cache_folder

MODULES: Final = Path(__file__).resolve().parent.parent / "tests" / "kubernetes" / "modules"
ETCD: Final = "go.etcd.io/etcd/server/v3"
KUBERNETES: Final[Mapping[str, str]] = {
    "etcd": ETCD,
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
"""Programs and their packages."""
INFORMER: Final = "informer"
CDI_HOOK: Final = "nvidia-cdi-hook"
_TOOLKIT: Final = "github.com/NVIDIA/nvidia-container-toolkit"
_TOOLKIT_VERSION: Final = "1.20.1"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a module of the container runtime is built.

    `version_variable` takes the version where a program does not know it otherwise.
    """

    path: str
    packages: Mapping[str, str]
    version_variable: str = ""
    tags: tuple[str, ...] = ()
    needs_c: bool = False


_CONTAINERD: Final = "github.com/containerd/containerd/v2"
_CNI: Final = "github.com/containernetworking/plugins"
RECIPES: Final[Mapping[str, Recipe]] = {
    "containerd": Recipe(
        _CONTAINERD,
        {name: f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        f"{_CONTAINERD}/version.Version",
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
    ),
    # Without seccomp every pod fails; with cgo the other two keep the C library's resolvers out.
    "runc": Recipe(
        "github.com/opencontainers/runc",
        {"runc": "github.com/opencontainers/runc"},
        tags=("seccomp", "netgo", "osusergo"),
        needs_c=True,
    ),
    "cni": Recipe(
        _CNI,
        {
            "bridge": f"{_CNI}/plugins/main/bridge",
            "host-local": f"{_CNI}/plugins/ipam/host-local",
            "loopback": f"{_CNI}/plugins/main/loopback",
        },
        f"{_CNI}/pkg/utils/buildversion.BuildVersion",
    ),
}


@dataclass(frozen=True, slots=True)
class GoModule:
    """`source` holds go.mod and go.sum, `target` takes the programs; `packages` are theirs."""

    title: str
    source: Path
    target: Path
    packages: Mapping[str, str]
    linker_flags: str
    room_gib: int = 1
    """What Go's caches and the programs take on disk while it is built."""
    tags: tuple[str, ...] = ()
    needs_c: bool = False


def kubernetes_module(environment: Mapping[str, str], minor: str) -> GoModule:
    version = PATCHES[minor]
    return GoModule(
        title=f"Kubernetes {version}",
        source=MODULES / minor,
        target=cached_folder(environment, minor),
        packages=KUBERNETES,
        linker_flags=kubernetes_linker_flags(version),
        room_gib=5,
    )


def runtime_module(environment: Mapping[str, str], module: RuntimeModule) -> GoModule:
    recipe = RECIPES[module.name]
    version = f" -X {recipe.version_variable}=v{module.version}" if recipe.version_variable else ""
    return GoModule(
        title=f"{'CNI plugins' if module.name == 'cni' else module.name} {module.version}",
        source=MODULES / module.name,
        target=module_folder(environment, module),
        packages=recipe.packages,
        linker_flags=f"-s -w{version}",
        tags=recipe.tags,
        needs_c=recipe.needs_c,
    )


def modules(environment: Mapping[str, str], minor: str) -> tuple[GoModule, ...]:
    """All that a genuine cluster with a genuine node takes; what is soon built comes first."""
    runtime = (runtime_module(environment, module) for module in reversed(RUNTIME))
    return (*runtime, kubernetes_module(environment, minor))


def client_module(environment: Mapping[str, str]) -> GoModule:
    """A controller's half: an informer and an election of client-go, which the tests hold servers against."""
    source = MODULES / "client-go"
    digest = hashlib.sha256(b"".join((source / name).read_bytes() for name in ("main.go", "go.sum")))
    return GoModule(
        title="a client of client-go",
        source=source,
        target=cache_folder(environment) / "kubernetes" / f"client-{digest.hexdigest()[:12]}",
        packages={INFORMER: "tonnage.test/client-go"},
        linker_flags="-s -w",
    )


def cdi_hook_module(environment: Mapping[str, str]) -> GoModule:
    """NVIDIA's program for hooks of CDI specs, which runs those of ours."""
    return GoModule(
        title=f"{CDI_HOOK} {_TOOLKIT_VERSION}",
        source=MODULES / CDI_HOOK,
        target=cache_folder(environment) / "kubernetes" / f"{CDI_HOOK}-{_TOOLKIT_VERSION}",
        packages={CDI_HOOK: f"{_TOOLKIT}/cmd/{CDI_HOOK}"},
        linker_flags=f"-s -w -X {_TOOLKIT}/internal/info.version={_TOOLKIT_VERSION}",
        tags=("netgo", "osusergo"),
        needs_c=True,
    )


def kubernetes_linker_flags(version: str) -> str:
    """Without them every server would say v0.0.0-master.

    >>> kubernetes_linker_flags("1.35.8").split()[:4]
    ['-s', '-w', '-X', 'k8s.io/component-base/version.gitVersion=v1.35.8']
    """
    major, minor, _ = version.split(".")
    facts = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {place}.{k}={v}" for place in places for k, v in facts.items())])
