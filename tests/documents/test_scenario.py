"""Scenario documents: fleets out of small YAML, strict, with the nearest known name."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cli.locations.labs_and_scenarios import load_scenario, scenario_names
from tonnage.documents.scenario import Scenario, parse_scenario, proportional, scenario_text
from tonnage.model.errors import ConfigError
from tonnage.model.kubernetes.selectors import Taint

GOOD = """\
name: mixed
serverVersion: "1.36"
groups:
  - name: t4
    nodes: 4
    gpu: {model: T4}
    config: shared
    labels: {team: ml}
    taints: ["nvidia.com/gpu=present:NoSchedule", "dedicated:NoExecute"]
  - name: cpu
    nodes: 2
    cpu: 8
    memory: 32Gi
configs:
  shared:
    version: v1
    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
"""


def scenario(text: str = GOOD) -> Scenario:
    return parse_scenario(text, source="s.yaml")


def test_a_good_scenario_is_read() -> None:
    read = scenario()
    assert [group.node_names for group in read.groups] == [
        ("t4-0", "t4-1", "t4-2", "t4-3"),
        ("cpu-0", "cpu-1"),
    ]
    assert read.groups[0].node_taints == (
        Taint("nvidia.com/gpu", "present", "NoSchedule"),
        Taint("dedicated", "", "NoExecute"),
    )
    assert read.groups[0].gpu is not None
    assert read.groups[0].gpu.count == 1
    assert (read.server_version, read.nodes) == ("1.36", 6)


@pytest.mark.parametrize("name", ["scenario", *scenario_names()])
def test_a_scenario_is_the_same_after_it_was_written(name: str) -> None:
    given = scenario() if name == "scenario" else load_scenario(name)
    assert parse_scenario(scenario_text(given), source="again") == given


def test_a_config_becomes_the_text_of_a_config_map_key() -> None:
    text = scenario().config_texts["shared"]
    assert text.startswith("version: v1\n")
    assert yaml.load(text, yaml.CSafeLoader)["sharing"]["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/gpu", "replicas": 4}
    ]


def test_a_group_says_how_its_kubelets_align_devices() -> None:
    options = '{prefer-closest-numa-nodes: "true", max-allowable-numa-nodes: "16"}'
    kubelet = f"{{topologyManagerPolicy: restricted, topologyManagerPolicyOptions: {options}}}"
    group = scenario(GOOD.replace("cpu: 8", f"numa: 16\n    kubelet: {kubelet}")).groups[1]
    assert group.kubelet.topology_manager_policy_options.texts() == {
        "prefer-closest-numa-nodes": "true",
        "max-allowable-numa-nodes": "16",
    }
    assert (group.kubelet.topology_manager_scope, group.numa_distances) == ("container", ())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            GOOD.replace("model: T4", "model: H10080"),
            "s.yaml:6:11 groups[0].gpu.model: unknown GPU model H10080 | use H100-80 if you meant that",
            id="an unknown model names the nearest",
        ),
        pytest.param(
            GOOD.replace("model: T4", "model: T4, mig: [1g.5gb]"),
            "s.yaml:6:22 groups[0].gpu.mig: T4 cannot be divided by MIG | one of A100-40",
            id="a card that MIG does not divide",
        ),
        pytest.param(
            GOOD.replace("config: shared", "config: shard"),
            "groups[0].config: configs has no key shard | use shared if you meant that",
            id="an unknown config names the nearest",
        ),
        pytest.param(
            GOOD.replace("nodes: 4", "nods: 4"),
            "unknown field nods | use nodes if you meant that",
            id="a misspelt key",
        ),
        pytest.param(GOOD.replace("name: cpu", "name: t4"), "two groups are named t4", id="a name twice"),
        pytest.param(GOOD.replace("nodes: 4", "nodes: 4000"), "groups[0].nodes", id="too many nodes"),
        pytest.param(GOOD.replace("nodes: 4", "nodes: 999"), "1001 nodes in all", id="too many nodes in all"),
        pytest.param(GOOD.replace("nodes: 4", "nodes: four"), "groups[0].nodes", id="a word for a number"),
        pytest.param(GOOD.replace("nodes: 4", "nodes: -1"), "groups[0].nodes", id="less than no nodes"),
        pytest.param(
            GOOD.replace("memory: 32Gi", "memory: 32GB"), "32GB is not a positive quantity", id="no quantity"
        ),
        pytest.param(GOOD.replace("team: ml", "team: a b"), "team=a b is not a label", id="no label"),
        pytest.param(GOOD.replace(":NoExecute", ":Never"), "'dedicated:Never' is not a taint", id="no taint"),
        pytest.param(GOOD.replace("name: t4", "name: T4"), "groups[0].name", id="no node name"),
        pytest.param(
            GOOD.replace('"1.36"', '"1.30"'), "unknown Kubernetes version 1.30", id="an old version"
        ),
        pytest.param(
            GOOD.replace("  shared:", "  a/b:"), "'a/b' is no key of a ConfigMap", id="no ConfigMap key"
        ),
        pytest.param(
            GOOD.replace("replicas: 4", "replicas: 1"),
            "configs.shared.sharing.timeSlicing.resources[0].replicas: number of replicas must be >= 2",
            id="a config that no agent would take",
        ),
        pytest.param(
            GOOD.replace("timeSlicing: {", "timeSlcing: {"),
            "configs.shared.sharing.timeSlcing: unknown field timeSlcing",
            id="a misspelt key in a config",
        ),
        pytest.param("name: x\ngroups: []\n", "0 nodes in all", id="no nodes"),
        pytest.param(
            GOOD.replace("cpu: 8", "kubelet: {topologyManagerPolicy: single-numa}"),
            "s.yaml:12:15 groups[1].kubelet.topologyManagerPolicy",
            id="a policy that kubelet does not have",
        ),
        pytest.param(
            GOOD.replace("cpu: 8", "numa: 16\n    kubelet: {topologyManagerPolicy: restricted}"),
            "kubelet would not start: 16 NUMA nodes, of which at most 8 are allowed | "
            'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "16"}',
            id="more NUMA nodes than kubelet starts with",
        ),
        pytest.param(
            GOOD.replace("cpu: 8", "kubelet: {cpuManagerPolicy: static}"),
            "the static CPU manager needs reserved CPUs",
            id="a CPU manager that may give everything away",
        ),
        pytest.param(
            GOOD.replace("cpu: 8", "numa: 2\n    numaDistances: [[10, 20]]"),
            "groups[1].numaDistances: numaDistances is not a table of 2 by 2",
            id="distances to a NUMA node that is not there",
        ),
        pytest.param("", "s.yaml", id="an empty file"),
    ],
)
def test_a_bad_scenario_is_refused_with_its_place(text: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(text)
    lines = [f"{problem.where}: {problem.what} | {problem.remedy}" for problem in caught.value.problems]
    assert any(found in line for line in lines), lines


def test_scaling_keeps_the_proportions_and_no_group_is_lost() -> None:
    assert [group.nodes for group in scenario().scaled(12).groups] == [8, 4]
    assert [group.nodes for group in scenario().scaled(2).groups] == [1, 1]
    assert [group.nodes for group in scenario().scaled(1).groups] == [1, 0]


@pytest.mark.parametrize("nodes", [0, -3, 1001])
def test_a_scale_out_of_bounds_is_refused(nodes: int) -> None:
    with pytest.raises(ConfigError, match="between 1 and 1000"):
        scenario().scaled(nodes)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 300))
def test_everything_is_dealt_out_and_nothing_goes_to_the_empty(weights: list[int], total: int) -> None:
    counts = proportional(tuple(weights), total)
    assert sum(counts) == total
    if any(weights):
        assert all(count == 0 for weight, count in zip(weights, counts, strict=True) if weight == 0)
    if total >= len(weights):
        assert all(count > 0 for weight, count in zip(weights, counts, strict=True) if weight > 0)


def test_the_configs_problems_have_their_own_lines_beside_those_of_the_fleet() -> None:
    text = """\
name: x
groups: [{name: a, gpus: {model: T4}}]
configs:
  both:
    version: v1
    sharing:
      timeSlicing:
        resources: [{name: nvidia.com/gpu, replicas: 1}]
  odd:
    vesion: v1
"""
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text, source="s.yaml")
    places = [problem.where for problem in caught.value.problems]
    assert "s.yaml:2:20 groups[0].gpus" in places
    assert "s.yaml:8:44 configs.both.sharing.timeSlicing.resources[0].replicas" in places
    assert "s.yaml:10:5 configs.odd.vesion" in places


VENDOR = """\
name: vendors
groups:
- name: big
  claimDrivers:
  - name: gpu.example.com
    devices:
    - name: card-0
      attributes: {memoryGiB: {int: 96}, model: {string: X1}, firmware: {version: 1.2.3}, ecc: {bool: true}}
      capacity: {memory: {value: 96Gi}}
"""


def test_a_group_carries_another_vendors_driver_with_its_devices() -> None:
    [driver] = scenario(VENDOR).groups[0].claim_drivers
    attributes = {
        "memoryGiB": {"int": 96},
        "model": {"string": "X1"},
        "firmware": {"version": "1.2.3"},
        "ecc": {"bool": True},
    }
    memory = {"memory": {"value": "96Gi"}}
    assert driver.slice_devices() == [{"name": "card-0", "attributes": attributes, "capacity": memory}]
    assert parse_scenario(scenario_text(scenario(VENDOR)), source="again") == scenario(VENDOR)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            VENDOR.replace("gpu.example.com", "gpu.nvidia.com"),
            "gpu.nvidia.com cannot be pretended",
            id="ours",
        ),
        pytest.param(
            VENDOR.replace("gpu.example.com", "GPU_1"), "domain name in lowercase", id="no name of a driver"
        ),
        pytest.param(
            VENDOR.replace("gpu.example.com", f"{'a' * 60}.com"),
            "it has more than 63 characters",
            id="a driver's name too long",
        ),
        pytest.param(VENDOR.replace("card-0", "Card_0"), "at most 63 lowercase letters", id="no device name"),
        pytest.param(
            VENDOR.replace("{int: 96}", "{int: 96, bool: true}"), "exactly one value", id="two values"
        ),
        pytest.param(VENDOR.replace("{int: 96}", "{}"), "exactly one value", id="no value"),
        pytest.param(VENDOR.replace("{int: 96}", "{int: '96'}"), "memoryGiB.int", id="a text for a number"),
        pytest.param(
            VENDOR.replace("{int: 96}", f"{{int: {1 << 63}}}"), "memoryGiB.int", id="more than 64 bits"
        ),
        pytest.param(VENDOR.replace("1.2.3", "'1.2'"), "three numbers", id="no version"),
        pytest.param(
            VENDOR.replace("memoryGiB", "memory-GiB"), "'memory-GiB' is no name", id="no fact's name"
        ),
        pytest.param(VENDOR.replace("96Gi}", "96GB}"), "96GB is not a positive quantity", id="no capacity"),
        pytest.param(
            VENDOR.replace("model: {string: X1}", ", ".join(f"a{n}: {{int: 1}}" for n in range(32))),
            "attributes",
            id="more facts than a device has",
        ),
        pytest.param(
            VENDOR + "    - {name: card-0}\n", "two devices are named card-0", id="two devices of a name"
        ),
        pytest.param(
            VENDOR + "  - {name: gpu.example.com, devices: []}\n",
            "two claimDrivers are named gpu.example.com",
            id="two drivers of a name",
        ),
        pytest.param(
            VENDOR + "    - {name: c, taints: []}\n", "unknown field taints", id="what is not pretended"
        ),
        pytest.param(
            VENDOR.replace("- name: big", "- name: big\n  light: true"),
            "light nodes have no claimDrivers",
            id="no kubelet",
        ),
    ],
)
def test_a_driver_that_cannot_be_pretended_is_refused_with_its_place(text: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(text)
    assert found in str(caught.value)
