"""kubelet's policies out of the texts in which they stand."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.node.kubelet_config import CPU, MEMORY, kubelet_config, manager_policy
from tonnage.model.errors import ConfigError

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_what_is_left_out_or_empty_is_kubelets_default() -> None:
    config = kubelet_config(f'{HEAD}cgroupDriver: systemd\ncpuManagerPolicy: ""\n', "c")
    assert config.policies == {
        "topologyManagerPolicy": "none",
        "topologyManagerScope": "container",
        "cpuManagerPolicy": "none",
        "memoryManagerPolicy": "None",
    }
    assert config.problems == ()


def test_policies_are_read_from_yaml_and_json_alike() -> None:
    told = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
    }
    lines = "".join(f"{name}: {policy}\n" for name, policy in told.items())
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    assert kubelet_config(HEAD + lines, "c").policies == told
    assert kubelet_config(json.dumps(head | told), "c").policies == told


def test_a_policy_that_kubelet_does_not_have_leaves_the_others() -> None:
    config = kubelet_config(f"{HEAD}topologyManagerPolicy: strictest\ncpuManagerPolicy: [static]\n", "c")
    assert [str(problem) for problem in config.problems] == [
        "c: topologyManagerPolicy is not a policy of kubelet: 'strictest'",
        "c: cpuManagerPolicy is not a policy of kubelet: \"['static']\"",
    ]
    assert config.policies == {"topologyManagerScope": "container", "memoryManagerPolicy": "None"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no KubeletConfiguration"),
        ("[]", "no KubeletConfiguration"),
        ("kind: Pod\napiVersion: v1\n", "no KubeletConfiguration"),
        ("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v2\n", "apiVersion 'kubelet.config"),
        (f"{HEAD}---\n{HEAD}", "more than one document"),
        (f"{HEAD}cpuManagerPolicy: none\ncpuManagerPolicy: static\n", "cpuManagerPolicy"),
        ("\x00\x01\x7f", "the text cannot be read"),
        ("a: " + "[" * 5000, ""),
    ],
)
def test_what_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="c:") as refused:
        kubelet_config(text, "c")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "policy"),
    [
        (CPU, '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}', "none"),
        (CPU, '{"policyName":"static","defaultCpuSet":"0-3","entries":{},"checksum":1}', "static"),
        (MEMORY, '{"policyName":"BestEffort","machineState":{},"checksum":2}', "BestEffort"),
    ],
)
def test_a_manager_says_which_policy_runs(name: str, text: str, policy: str) -> None:
    assert manager_policy(name, text, "s") == policy


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"policyName": 7}', '{"policyName": "x"}', "[" * 9999]
)
def test_a_managers_file_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        manager_policy(CPU, text, "s")


@given(st.text(max_size=60) | st.text(max_size=30).map(lambda tail: HEAD + tail))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (lambda: kubelet_config(text, "c").policies, lambda: manager_policy(MEMORY, text, "s")):
        with suppress(ConfigError):
            assert read()
