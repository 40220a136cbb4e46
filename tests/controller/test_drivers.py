"""Drivers on the twin's API server: groups, preflight, and upgrades node by node."""

from __future__ import annotations

from typing import Any

import pytest

from controller.driver_bench import DRIVERS, UPGRADES, DriverBench
from controller.test_operator import POLICY
from tonnage.decide.cluster.operate.drivers.states import STATE_LABEL
from tonnage.wire.kinds import CLUSTER_POLICY, DAEMON_SET, EVENT, NODE, NVIDIA_DRIVER, POD

REQUESTED = "nvidia.com/gpu-driver-upgrade-requested"
REQUEST: Any = {"metadata": {"annotations": {REQUESTED: "true"}}}


async def test_nodes_with_one_system_share_a_daemon_set(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.machine("b")
    await bench.machine("c", system="rhel", version="9.4")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    images = {
        each.metadata.name: each.spec.template["spec"]["containers"][0]["image"]
        for each in await bench.sets()
    }
    assert images == {
        "nvidia-driver-daemonset-rhel9": "nvcr.io/nvidia/driver:580.95.05-rhel9",
        "nvidia-driver-daemonset-ubuntu22.04": "nvcr.io/nvidia/driver:580.95.05-ubuntu22.04",
    }
    assert set(await bench.running()) == {"a", "b", "c"}
    assert set((await bench.states()).values()) == {"upgrade-done"}
    [first, _] = await bench.sets()
    [owner] = first.metadata.owner_references
    assert (owner.kind, owner.name) == ("ClusterPolicy", "cluster-policy")
    condition = await bench.condition("tonnage.dev/DriverUpgrade")
    assert (condition["status"], condition["reason"]) == ("True", "UpToDate")


async def test_precompiled_drivers_have_a_daemon_set_for_each_kernel(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.machine("b")
    info: Any = {"status": {"nodeInfo": {"kernelVersion": "5.15.0-91-generic"}}}
    await bench.api.patch(NODE, "b", info, subresource="status")
    await bench.drivers("580", usePrecompiled=True)
    bench.start(DRIVERS)
    await bench.clock.advance(20)
    image = "nvcr.io/nvidia/driver:580-5.15.0-{}-generic-ubuntu22.04"
    assert await bench.running() == {"a": image.format(84), "b": image.format(91)}
    assert len(await bench.sets()) == 2


async def test_no_driver_is_brought_where_the_policy_wants_none(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05", enabled=False)
    bench.start(DRIVERS)
    await bench.clock.advance(20)
    assert (await bench.sets(), await bench.running()) == ([], {})
    assert (await bench.condition("Ready"))["message"] == "all 1 GPU nodes are ready"


async def test_a_group_without_nodes_loses_its_daemon_set(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    opt_out: Any = {"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "false"}}}
    await bench.api.patch(NODE, "a", opt_out)
    await bench.clock.advance(10)
    assert await bench.sets() == []
    assert "tonnage.dev/driver-group" not in await bench.labels("a")


@pytest.mark.parametrize(
    ("host", "reason", "words", "runs"),
    [
        pytest.param(
            {"driverOwner": "host", "driverVersion": "570.1"},
            "HostDriverConflict",
            "a: the host has a driver 570.1 of its own",
            False,
            id="DRV-5: a host driver",
        ),
        pytest.param({"nouveauBound": 1}, "NouveauBound", "blacklist nouveau", False, id="DRV-2: nouveau"),
        pytest.param(
            {"secureBoot": True}, "SecureBootRefusesModule", "usePrecompiled=true", False, id="secure boot"
        ),
        pytest.param(
            {"kernelHeaders": False},
            "KernelHeadersMissing",
            "install linux-headers-5.15.0-84-generic",
            True,
            id="DRV-1: no kernel headers",
        ),
        pytest.param(
            {"systemID": "", "systemVersion": ""},
            "SystemUnknown",
            "a: its system is not known, so that no driver image can be named",
            False,
            id="a system that nobody names",
        ),
    ],
)
async def test_what_stands_against_a_driver_is_a_condition_with_the_node_and_the_remedy(
    bench: DriverBench, host: dict[str, Any], reason: str, words: str, *, runs: bool
) -> None:
    await bench.machine("a", image="Linux", **host)
    await bench.machine("b")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert set(await bench.running()) == ({"a", "b"} if runs else {"b"})
    condition = await bench.condition("tonnage.dev/DriverPreflight")
    assert condition["reason"] == reason
    assert words in condition["message"]
    assert (await bench.condition("tonnage.dev/DriverUpgrade"))["status"] == "True"


async def test_versions_that_were_not_released_together_are_warned_of_and_block_nothing(
    bench: DriverBench,
) -> None:
    await bench.machine("a", kernelHeaders=False)
    versions: dict[str, Any] = {
        "toolkit": {"version": "v1.14.6"},
        "devicePlugin": {"version": "v0.17.4"},
    }
    driver = {**POLICY["spec"]["driver"], "version": "580.95.05", "upgradePolicy": UPGRADES}
    await bench.policy(driver=driver, **versions)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert set(await bench.running()) == {"a"}
    condition = await bench.condition("tonnage.dev/DriverPreflight")
    assert (condition["status"], condition["reason"]) == ("True", "KernelHeadersMissing")
    assert "are in no release of the GPU operator together" in condition["message"].splitlines()[-1]


async def test_an_upgrade_goes_node_by_node_and_holds_up_at_none(bench: DriverBench) -> None:
    for name in ("a", "b", "c"):
        await bench.machine(name)
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    bench.bad = {"b": {"595.91.07"}}
    await bench.drivers("595.91.07")
    await bench.until_at_rest()
    assert await bench.states() == {"a": "upgrade-done", "b": "upgrade-failed", "c": "upgrade-done"}
    new = "nvcr.io/nvidia/driver:595.91.07-ubuntu22.04"
    assert await bench.running() == {"a": new, "c": new}
    assert {n.metadata.name for n in await bench.nodes() if n.spec.unschedulable} == {"b"}
    condition = await bench.condition("tonnage.dev/DriverUpgrade")
    assert condition["reason"] == "UpgradeFailed"
    assert "2 of 3 nodes run the driver that is asked for" in condition["message"]
    assert "b: upgrade-failed" in condition["message"]
    assert "Could not resolve Linux kernel version" in condition["message"]
    bench.bad = {}
    await bench.until_at_rest()
    assert set((await bench.states()).values()) == {"upgrade-done"}
    assert not any(node.spec.unschedulable for node in await bench.nodes())


async def test_a_version_that_fails_everywhere_stops_after_the_first_slot(bench: DriverBench) -> None:
    names = ("a", "b", "c")
    for name in names:
        await bench.machine(name)
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    bench.bad = {name: {"595.91.07"} for name in names}
    await bench.drivers("595.91.07")
    await bench.clock.advance(90)
    states = await bench.states()
    assert states == {"a": "upgrade-failed", "b": "upgrade-required", "c": "upgrade-required"}
    condition = await bench.condition("tonnage.dev/DriverUpgrade")
    assert "waits for a: the driver has failed on a and runs nowhere yet" in condition["message"]
    [daemon_set] = await bench.sets()
    assert "580.95.05" in daemon_set.metadata.annotations["tonnage.dev/previous-driver-image"]
    await bench.drivers("580.95.05")
    await bench.until_at_rest()
    assert set((await bench.states()).values()) == {"upgrade-done"}
    assert set(await bench.running()) == set(names)
    assert not any(node.spec.unschedulable for node in await bench.nodes())


async def test_a_users_cordon_stays(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    cordon: Any = {"spec": {"unschedulable": True}}
    await bench.api.patch(NODE, "a", cordon)
    await bench.drivers("595.91.07", upgradePolicy={"autoUpgrade": True, "maxUnavailable": 0})
    await bench.clock.advance(60)
    [node] = await bench.nodes()
    assert (await bench.states())["a"] == "upgrade-done"
    assert "595.91.07" in (await bench.running())["a"]
    assert node.spec.unschedulable
    notes = {key for key in node.metadata.annotations if "driver-upgrade" in key}
    assert notes <= {"tonnage.dev/driver-upgrade-target", "nvidia.com/gpu-driver-upgrade-enabled"}


@pytest.mark.parametrize(
    "user",
    [
        pytest.param("kubectl-cordon", id="who lifts our cordon and cordons again between two looks"),
        pytest.param("", id="nobody"),
    ],
)
async def test_a_cordon_is_lifted_that_is_ours_alone(bench: DriverBench, user: str) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    await bench.drivers("595.91.07")
    for _ in range(60):
        await bench.clock.advance(0.5)
        if (await bench.states())["a"] == "pod-restart-required":
            break
    assert (await bench.nodes())[0].spec.unschedulable
    if user:
        api = bench.server.local(user)
        for unschedulable in (None, True):
            body: Any = {"spec": {"unschedulable": unschedulable}}
            await api.patch(NODE, "a", body)
    await bench.until_at_rest()
    [node] = await bench.nodes()
    assert (await bench.states()) == {"a": "upgrade-done"}
    assert node.spec.unschedulable == bool(user)
    assert not [key for key in node.metadata.annotations if key.endswith("-cordon")]


async def test_pods_with_gpus_leave_and_jobs_are_waited_for(bench: DriverBench) -> None:
    await bench.machine("a")
    upgrades = {"autoUpgrade": True, "waitForCompletion": {"podSelector": "job=long"}}
    await bench.drivers("580.95.05", upgradePolicy=upgrades)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    body: Any = {
        "metadata": {"name": "train", "labels": {"job": "long"}},
        "spec": {
            "nodeName": "a",
            "containers": [
                {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            ],
        },
    }
    await bench.api.create(POD, body, namespace="default")
    await bench.drivers("595.91.07", upgradePolicy=upgrades)
    await bench.clock.advance(60)
    assert (await bench.states())["a"] == "wait-for-jobs-required"
    condition = await bench.condition("tonnage.dev/DriverUpgrade")
    assert "waits for pods that match job=long: default/train" in condition["message"]
    unlabel: Any = {"metadata": {"labels": {"job": None}}}
    await bench.api.patch(POD, "train", unlabel, namespace="default")
    await bench.clock.advance(20)
    assert (await bench.states())["a"] == "upgrade-failed"
    condition = await bench.condition("tonnage.dev/DriverUpgrade")
    assert "default/train may not be evicted: no controller would make it anew" in condition["message"]
    await bench.api.delete(POD, "train", namespace="default", grace_period_s=0)
    await bench.api.patch(NODE, "a", REQUEST)
    await bench.until_at_rest()
    assert (await bench.states())["a"] == "upgrade-done"


async def test_labels_that_a_driver_pod_left_paused_are_set_again(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    paused: Any = {
        "metadata": {"labels": {"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}}
    }
    await bench.api.patch(NODE, "a", paused)
    await bench.clock.advance(10)
    assert (await bench.labels("a"))["nvidia.com/gpu.deploy.device-plugin"] == "true"


async def test_each_nvidiadriver_has_its_nodes_and_the_default_has_the_others(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.machine("b")
    pool: Any = {"metadata": {"labels": {"pool": "new"}}}
    await bench.api.patch(NODE, "b", pool)
    await bench.drivers("1.0", useNvidiaDriverCRD=True)
    await bench.driver(
        "general", default=True, version="580.95.05", repository="nvcr.io/nvidia", image="driver"
    )
    special = {"version": "595.91.07", "repository": "nvcr.io/nvidia", "image": "driver"}
    await bench.driver("special", nodeSelector={"pool": "new"}, useOpenKernelModules=True, **special)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    running = await bench.running()
    assert "580.95.05" in running["a"]
    assert "595.91.07" in running["b"]
    assert (await bench.labels("b"))["nvidia.com/gpu-operator.driver.owner"] == "special"
    status = (await bench.api.get(NVIDIA_DRIVER, "special")).status
    assert status["state"] == "ready"
    conditions = {c["type"]: c for c in status["conditions"]}
    assert "useOpenKernelModules" in conditions["tonnage.dev/FieldsWithoutEffect"]["message"]
    await bench.driver("again", nodeSelector={"pool": "new"}, **special)
    await bench.clock.advance(10)
    status = (await bench.api.get(NVIDIA_DRIVER, "again")).status
    conditions = {c["type"]: c for c in status["conditions"]}
    assert "again and special both select node b" in conditions["Error"]["message"]
    assert "595.91.07" in (await bench.running())["b"], "the last good state stays"


async def test_nvidias_driver_manager_leaves_cordons_and_pods_to_the_controller(bench: DriverBench) -> None:
    """It lifts every cordon at its end, a user's too, unless the node has this annotation."""
    enabled = "nvidia.com/gpu-driver-upgrade-enabled"

    async def value() -> str | None:
        return (await bench.api.get(NODE, "a")).metadata.annotations.get(enabled)

    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.until_at_rest()
    assert await value() == "true"
    await bench.drivers("580.95.05", upgradePolicy={"autoUpgrade": False})
    await bench.clock.advance(30)
    assert await value() is None, "who deletes the driver's pod by hand has the manager evict"
    await bench.drivers("595.91.07", upgradePolicy={"autoUpgrade": False})
    bench.bad = {"a": {"595.91.07"}}
    await bench.clock.advance(10)
    await bench.api.patch(NODE, "a", REQUEST)
    await bench.clock.advance(20)
    await bench.until_at_rest()
    assert (await bench.states())["a"] == "upgrade-failed"
    assert await value() == "true", "the cordon is the controller's"
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")
    await bench.clock.advance(60)
    assert await value() is None


async def _bench_without_automatic_upgrades(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05", upgradePolicy={"autoUpgrade": False})
    bench.start(DRIVERS)
    await bench.until_at_rest()


async def test_an_upgrade_asked_for_in_the_moment_the_version_changes_is_done(bench: DriverBench) -> None:
    await _bench_without_automatic_upgrades(bench)
    await bench.drivers("595.91.07", upgradePolicy={"autoUpgrade": False})
    await bench.api.patch(NODE, "a", REQUEST)
    await bench.clock.advance(10)
    await bench.until_at_rest()
    assert "595.91.07" in (await bench.running())["a"]
    assert REQUESTED not in (await bench.api.get(NODE, "a")).metadata.annotations


@pytest.mark.parametrize("pause_s", [0.0, 0.3, 1.0, 4.0])
async def test_an_upgrade_asked_for_twice_is_done_once(bench: DriverBench, pause_s: float) -> None:
    """What is asked for while an upgrade waits or is under way is that upgrade."""
    await _bench_without_automatic_upgrades(bench)
    await bench.drivers("595.91.07", upgradePolicy={"autoUpgrade": False})
    await bench.clock.advance(5)
    await bench.api.patch(NODE, "a", REQUEST)
    await bench.clock.advance(pause_s)
    await bench.api.patch(NODE, "a", REQUEST)
    await bench.clock.advance(60)
    assert "595.91.07" in (await bench.running())["a"]
    assert (await bench.states())["a"] == "upgrade-done"
    assert REQUESTED not in (await bench.api.get(NODE, "a")).metadata.annotations


async def test_an_upgrade_asked_for_where_there_is_none_is_not_kept_for_the_next(bench: DriverBench) -> None:
    await _bench_without_automatic_upgrades(bench)
    await bench.api.patch(NODE, "a", REQUEST)
    await bench.clock.advance(10)
    assert REQUESTED not in (await bench.api.get(NODE, "a")).metadata.annotations
    await bench.drivers("595.91.07", upgradePolicy={"autoUpgrade": False})
    await bench.clock.advance(60)
    assert "580.95.05" in (await bench.running())["a"]


async def test_a_policy_that_asks_for_no_driver_any_more_says_so(bench: DriverBench) -> None:
    await bench.machine("a", nouveauBound=1)
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert (await bench.condition("tonnage.dev/DriverPreflight"))["reason"] == "NouveauBound"
    await bench.drivers("580.95.05", enabled=False)
    await bench.clock.advance(10)
    for kind in ("Preflight", "Upgrade"):
        condition = await bench.condition(f"tonnage.dev/Driver{kind}")
        assert (condition["status"], condition["reason"]) == ("Unknown", "NoDrivers")
        assert condition["message"] == "the controller installs no driver for this policy"


async def test_without_the_policy_nothing_of_ours_stays(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")
    await bench.clock.advance(10)
    assert (await bench.api.list(DAEMON_SET, namespace="gpu-operator")).items == []
    labels = await bench.labels("a")
    assert not {"tonnage.dev/driver-group", STATE_LABEL} & labels.keys()
    messages = {event.message.strip() for event in (await bench.api.list(EVENT)).items}
    assert "the driver's upgrade is at" not in messages


@pytest.mark.long
async def test_a_hundred_nodes_of_which_three_are_bad(bench: DriverBench) -> None:
    names = [f"n{number:03}" for number in range(100)]
    for name in names:
        await bench.machine(name)
    upgrades = {"autoUpgrade": True, "maxParallelUpgrades": 10, "maxUnavailable": "25%"}
    await bench.drivers("580.95.05", upgradePolicy=upgrades)
    bench.start(DRIVERS)
    await bench.clock.advance(20)
    assert len(await bench.running()) == 100
    bad = ("n000", "n050", "n099")
    bench.bad = {name: {"595.91.07"} for name in bad}
    await bench.drivers("595.91.07", upgradePolicy=upgrades)
    await bench.until_at_rest()
    states = await bench.states()
    assert [name for name, state in states.items() if state == "upgrade-failed"] == list(bad)
    assert sum(state == "upgrade-done" for state in states.values()) == 97
    assert bench.most_missing <= 13
    message = (await bench.condition("tonnage.dev/DriverUpgrade"))["message"]
    assert all(f"{name}: upgrade-failed" in message for name in bad)
