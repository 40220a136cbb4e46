"""Which runtime and which files are meant, out of what a node shows and a person says."""

from __future__ import annotations

import pytest

from tonnage.decide.node.runtime.detection import runtime_seen
from tonnage.model.node.facts import RuntimeFacts
from tonnage.model.node.runtime_config import RuntimeConfig, RuntimeKind

PLAIN = RuntimeConfig(
    RuntimeKind.CONTAINERD, ("/etc/containerd/config.toml", "/etc/containerd/conf.d/a.toml")
)
RKE2 = RuntimeConfig(RuntimeKind.CONTAINERD, ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml",))
CRIO = RuntimeConfig(RuntimeKind.CRIO, ("/etc/crio/crio.conf.d/10-crio.conf",))
RANCHERS = "/run/k3s/containerd/containerd.sock"
DOCKERS = "/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    ("facts", "said", "version", "version_source", "main"),
    [
        pytest.param(
            RuntimeFacts("containerd", "2.2.9", (PLAIN,), packages={"containerd": "1.7.24"}),
            {},
            "2.2.9",
            "the runtime itself",
            PLAIN.files[0],
            id="what it says itself counts before its package",
        ),
        pytest.param(
            RuntimeFacts("containerd", "2.2.9", (PLAIN,)),
            {"runtime": "containerd://v1.7.24"},
            "1.7.24",
            "--runtime",
            PLAIN.files[0],
            id="what a person says counts before all",
        ),
        pytest.param(
            RuntimeFacts(configs=(PLAIN,), packages={"containerd.io": "1.7.27-1"}),
            {},
            "1.7.27-1",
            "package containerd.io",
            PLAIN.files[0],
            id="the package, where nobody answers",
        ),
        pytest.param(
            RuntimeFacts(configs=(CRIO,), packages={"cri-o": "1.34.2-1"}),
            {},
            "1.34.2-1",
            "package cri-o",
            CRIO.files[0],
            id="CRI-O",
        ),
        pytest.param(
            RuntimeFacts("containerd", "2.1.4-k3s2", (PLAIN, RKE2), sockets=(DOCKERS, RANCHERS)),
            {},
            "2.1.4-k3s2",
            "the runtime itself",
            RKE2.files[0],
            id="RKE2 beside Docker",
        ),
        pytest.param(
            RuntimeFacts("containerd", "2.1.4", (PLAIN, RKE2)),
            {"config": PLAIN.files[0]},
            "2.1.4",
            "the runtime itself",
            PLAIN.files[0],
            id="of two the one that is named",
        ),
        pytest.param(
            RuntimeFacts("containerd", "2.1.4", (PLAIN,)),
            {"config": "/opt/containerd.toml"},
            "2.1.4",
            "the runtime itself",
            "/opt/containerd.toml",
            id="a place that nobody else knows",
        ),
        pytest.param(
            RuntimeFacts("cri-o", "1.34.2"),
            {},
            "1.34.2",
            "the runtime itself",
            "/etc/crio/crio.conf",
            id="no file",
        ),
    ],
)
def test_which_runtime_is_meant(
    facts: RuntimeFacts, said: dict[str, str], version: str, version_source: str, main: str
) -> None:
    runtime = runtime_seen(facts, runtime=said.get("runtime", ""), config=said.get("config", ""))
    assert (runtime.version, runtime.version_source, runtime.files[0].path) == (version, version_source, main)
    assert runtime.refusals == ()


def test_all_files_of_a_runtime_are_named_and_none_is_read() -> None:
    runtime = runtime_seen(RuntimeFacts("containerd", "2.2.9", (PLAIN,)))
    assert tuple(file.path for file in runtime.files) == PLAIN.files
    assert all(file.text is None for file in runtime.files)


@pytest.mark.parametrize(
    "facts",
    [
        RuntimeFacts(),
        RuntimeFacts("docker", "27.1", (PLAIN,)),
        RuntimeFacts(configs=(PLAIN, CRIO)),
        RuntimeFacts(packages={"containerd": "1.7.24", "cri-o": "1.34.2"}),
    ],
    ids=["nothing", "another one", "two configured", "two installed"],
)
def test_what_is_not_known_is_not_guessed(facts: RuntimeFacts) -> None:
    assert runtime_seen(facts).kind is None


@pytest.mark.parametrize(
    ("config", "units", "unit"),
    [
        (RKE2, ("containerd", "rke2-agent"), "rke2-agent"),
        (RKE2, (), "rke2"),
        (PLAIN, ("k3s",), "containerd"),
        (CRIO, (), "crio"),
    ],
)
def test_the_unit_that_has_it(config: RuntimeConfig, units: tuple[str, ...], unit: str) -> None:
    assert runtime_seen(RuntimeFacts(config.kind.value, "2.1.4", (config,)), units).unit == unit
