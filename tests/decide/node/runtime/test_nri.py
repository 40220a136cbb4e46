"""RUN-3: whether NVIDIA's NRI plugin works with a node's runtime, by version and configuration."""

from __future__ import annotations

import pytest

from tonnage.decide.node.runtime.nri import nri_answer
from tonnage.model.node.runtime_change import ConfigFile, RuntimeSeen
from tonnage.model.node.runtime_config import RuntimeKind

MAIN = "/etc/containerd/config.toml"
OFF = 'version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n'
ON = OFF.replace("version = 3", "version = 2").replace("true", "false")
OLD = "does not support NVIDIA's NRI plugin"


@pytest.mark.parametrize(
    ("kind", "version", "text", "words"),
    [
        pytest.param("containerd", "1.6.39", "", OLD, id="containerd 1.6"),
        pytest.param("containerd", "1.7.24", ON, OLD, id="containerd 1.7.24 has no CDI devices in NRI"),
        pytest.param("containerd", "1.7.30", "", "NRI is off in containerd 1.7.30", id="1.7.30 has it off"),
        pytest.param("containerd", "1.7.30", ON, "", id="1.7.30, switched on"),
        pytest.param("containerd", "2.0.7", "", OLD, id="containerd 2.0"),
        pytest.param("containerd", "2.1.5", "", "", id="containerd 2.1 has it on"),
        pytest.param("containerd", "2.2.9", OFF, "NRI is off in containerd 2.2.9", id="2.2, switched off"),
        pytest.param("containerd", "2.2.9", "[x\n", "NRI may be off", id="a file that is no TOML"),
        pytest.param("cri-o", "1.31.5", "", OLD, id="CRI-O 1.31"),
        pytest.param("cri-o", "1.34.2", "", "", id="CRI-O 1.34"),
        pytest.param("cri-o", "1.34.2", "[crio.nri]\nenable_nri = false\n", "NRI is off", id="CRI-O, off"),
        pytest.param("containerd", "", "", "does not know", id="an unknown version"),
    ],
)
def test_where_the_plugin_works_and_what_to_do_where_not(
    kind: str, version: str, text: str, words: str
) -> None:
    runtime = RuntimeSeen(RuntimeKind(kind), version, "the Node", (ConfigFile(MAIN, text),), kind)
    answer = nri_answer(runtime)
    assert [words in problem.message for problem in answer.refusals] == ([True] if words else [])
    assert all(problem.remedy for problem in answer.refusals)
    assert bool(answer.reason) == (not words)


def test_run_3_the_refusal_names_the_versions_that_work_and_the_operators_switch() -> None:
    runtime = RuntimeSeen(RuntimeKind.CONTAINERD, "1.7.24", "the runtime itself")
    (problem,) = nri_answer(runtime, ["ENABLE_NRI_PLUGIN of process 50"]).refusals
    assert "containerd 1.7.30 and newer of 1.7, 2.1 and newer, or CRI-O 1.34" in problem.why
    assert "cdi.nriPluginEnabled=false" in problem.remedy
    assert "cdi-cri does the same without NRI" in problem.remedy


@pytest.mark.parametrize(("version", "instead"), [("1.6.20", "envvar"), ("1.7.24", "cdi-cri")])
def test_what_does_the_same_is_what_the_runtime_can(version: str, instead: str) -> None:
    answer = nri_answer(RuntimeSeen(RuntimeKind.CONTAINERD, version, "the Node"))
    (problem,) = answer.refusals
    assert f"deviceListStrategy: {instead}" in problem.remedy
    assert answer.by_cdi == (instead == "cdi-cri")
