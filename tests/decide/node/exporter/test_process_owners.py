"""Whose a process on a device is, by control groups as kernels, kubelets and runtimes name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tonnage.decide.node.exporter.process_owners import PodProcesses, activities_of, pods_by_uid
from tonnage.decide.node.exporter.shares import shares_of
from tonnage.decide.node.exporter.usage import ProcessActivity
from tonnage.model.devices.inventory import GpuProcess
from tonnage.model.devices.sharing import Hold
from tonnage.model.node.processes import NodeProcess, ProcessTable
from tonnage.model.node.telemetry import GpuEntity, PodIdentity

UID = "fc58e18c-f5ac-414e-9e17-9ef851b4b07b"
OTHER = "0a1b2c3d-0000-4000-8000-000000000001"
STATIC = "5f2a0c6b9d3e4f708192a3b4c5d6e7f8"
MAIN, SIDE = "1" * 64, "2" * 64
UNDER = UID.replace("-", "_")
PODS = pods_by_uid(
    {
        "ml/train": PodIdentity(UID, containers={MAIN: "main", SIDE: "side"}),
        "ml/other": PodIdentity(OTHER),
        "kube-system/static": PodIdentity("d1d1d1d1-0000-4000-8000-000000000009", static_uid=STATIC),
    }
)


def known(*processes: NodeProcess, listed_s: float = 1000.0) -> PodProcesses:
    table = ProcessTable({process.pid: process for process in processes}, uptime_s=1001.0, now_s=5001.0)
    return PodProcesses(table, listed_s, PODS)


@pytest.mark.parametrize(
    ("cgroup", "owner"),
    [
        pytest.param(
            f"12:memory:/kubepods/burstable/pod{UID}/{MAIN}\n1:name=systemd:/kubepods/burstable/pod{UID}/{MAIN}",
            (("ml", "train"), "main"),
            id="v1, cgroupfs",
        ),
        pytest.param(
            f"4:memory:/kubepods.slice/kubepods-pod{UNDER}.slice/cri-containerd-{SIDE}.scope",
            (("ml", "train"), "side"),
            id="v1, systemd, guaranteed",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDER}.slice"
            f"/cri-containerd-{MAIN}.scope",
            (("ml", "train"), "main"),
            id="v2, systemd, containerd",
        ),
        pytest.param(
            f"0::/../../kubepods-besteffort-pod{UNDER}.slice/crio-{MAIN}.scope/container",
            (("ml", "train"), "main"),
            id="v2, seen from another control group namespace, CRI-O, a group of the container's own",
        ),
        pytest.param(
            f"0::/kubepods/pod{UID}/{MAIN}/init.scope", (("ml", "train"), "main"), id="v2, systemd inside"
        ),
        pytest.param(
            f"5:cpuset:/\n1:name=systemd:/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDER}.slice"
            f"/docker-{MAIN}.scope\n0::/",
            (("ml", "train"), "main"),
            id="hybrid, below a slice of kubelet's own",
        ),
        pytest.param(
            f"0::/kubepods/pod99999999-0000-4000-8000-000000000000/{'9' * 64}/kubepods/pod{UID}/{MAIN}",
            (("ml", "train"), "main"),
            id="a node that runs in a pod of another cluster",
        ),
        pytest.param(
            f"0::/kubepods/pod{UID}/{MAIN}/kubepods/pod99999999-0000-4000-8000-000000000000/{'9' * 64}",
            (("ml", "train"), "main"),
            id="a cluster inside the pod",
        ),
        pytest.param(
            f"0::/kubepods/burstable/pod{STATIC}/{MAIN}", (("kube-system", "static"), ""), id="static pod"
        ),
        pytest.param(
            f"0::/kubepods/pod{UID}/{'3' * 64}", (("ml", "train"), ""), id="a container that is not named yet"
        ),
        pytest.param("0::/system.slice/nvidia-persistenced.service", None, id="a service of the host"),
        pytest.param("0::/kubepods/podffffffff-0000-4000-8000-000000000000/x", None, id="a pod that is over"),
        pytest.param("", None, id="nothing"),
        pytest.param("0::/" + "pod" * 9000 + "\n\x00\xff", None, id="nonsense"),
    ],
)
def test_the_owner_of_a_process(cgroup: str, owner: object) -> None:
    assert known(NodeProcess(7, 10.0, cgroup)).owner(7) == owner


def of_pod(pid: int, uid: str = UID, container: str = MAIN, started_s: float = 10.0) -> NodeProcess:
    return NodeProcess(pid, started_s, f"0::/kubepods/pod{uid}/{container}")


GPU = GpuEntity(0, "GPU-0", "", "H100")
SHARED = "nvidia.com/gpu.shared"
HOLDS = (
    Hold(SHARED, ("GPU-0::0",), "ml", "train", "main"),
    Hold(SHARED, ("GPU-0::1",), "ml", "other", "main"),
)
SHARES = shares_of(HOLDS, [GPU], {(SHARED, "GPU-0"): 4})["GPU-0", None]
TRAIN, OTHERS = (share.user for share in SHARES)
MIB = 1 << 20


def on_gpu(pid: int, memory_mib: int | None = 100, percent: float | None = 20, **more: object) -> GpuProcess:
    return replace(GpuProcess("GPU-0", pid, memory_mib, None, percent, 5_000_000_000), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("processes", "on_node", "expected"),
    [
        pytest.param(
            [on_gpu(7), on_gpu(8)],
            [of_pod(7), of_pod(8, OTHER)],
            [ProcessActivity(TRAIN, 100 * MIB, 0.2), ProcessActivity(OTHERS, 100 * MIB, 0.2)],
            id="each of its own pod",
        ),
        pytest.param(
            [on_gpu(7)],
            [],
            [ProcessActivity(None, 0, 0.2), ProcessActivity(None, 100 * MIB, 0)],
            id="it ended",
        ),
        pytest.param(
            [on_gpu(7)],
            [of_pod(7, started_s=1000.5)],
            [ProcessActivity(None, 0, 0.2), ProcessActivity(None, 100 * MIB, 0)],
            id="its number is another process's since the driver was asked",
        ),
        pytest.param(
            [on_gpu(7, sampled_us=4_900_000_000)],
            [of_pod(7, started_s=950.0)],
            [ProcessActivity(None, 0, 0.2), ProcessActivity(TRAIN, 100 * MIB, 0)],
            id="what a process before it with the same number computed is not its own",
        ),
        pytest.param(
            [on_gpu(7, None, None)], [of_pod(7)], [ProcessActivity(TRAIN, None, None)], id="nothing is told"
        ),
        pytest.param(
            [on_gpu(7)],
            [of_pod(7, container=SIDE)],
            [ProcessActivity(TRAIN, 100 * MIB, 0.2)],
            id="a container of the pod beside the one that holds the device",
        ),
        pytest.param(
            [on_gpu(7)],
            [of_pod(7, STATIC)],
            [ProcessActivity(None, 100 * MIB, 0.2)],
            id="a pod that does not hold the device",
        ),
    ],
)
def test_what_processes_use_is_their_pods(
    processes: list[GpuProcess], on_node: list[NodeProcess], expected: list[ProcessActivity]
) -> None:
    assert list(activities_of(processes, known(*on_node), SHARES)) == expected


def server(pid: int, user: int) -> NodeProcess:
    """A process of the agent's own pod: no holder's."""
    return NodeProcess(
        pid, 5.0, "0::/kubepods/podaaaaaaaa-0000-4000-8000-000000000000/x", user, "nvidia-cuda-mps"
    )


def client(pid: int, memory_mib: int = 100) -> GpuProcess:
    return on_gpu(pid, memory_mib, 0, through_mps=True, sampled_us=0)


def total(activities: Sequence[ProcessActivity], user: object) -> tuple[int, float]:
    own = [activity for activity in activities if activity.user == user]
    return sum(entry.memory_bytes or 0 for entry in own) // MIB, round(
        sum(entry.busy or 0 for entry in own), 6
    )


def test_clients_of_an_mps_server_have_what_it_uses_and_their_own_memory() -> None:
    """SHR-7. The driver may tell the server's utilisation alone."""
    processes = [on_gpu(1, 60, 90), client(7), client(8, 300), on_gpu(7, 100, 0)]
    activities = activities_of(processes, known(server(1, 0), of_pod(7), of_pod(8, OTHER)), SHARES)
    assert total(activities, TRAIN) == (130, 0.45)
    assert total(activities, OTHERS) == (330, 0.45)
    assert total(activities, None) == (0, 0)


def test_each_user_has_an_mps_server_of_its_own() -> None:
    processes = [on_gpu(1, 60, 90), on_gpu(2, 20, 10), client(7), client(8)]
    mine = replace(of_pod(7), user=1000)
    activities = activities_of(
        processes, known(server(1, 1000), server(2, 0), mine, of_pod(8, OTHER)), SHARES
    )
    assert total(activities, TRAIN) == (160, 0.9)
    assert total(activities, OTHERS) == (120, 0.1)


def test_a_server_without_clients_is_nobodys() -> None:
    activities = activities_of([on_gpu(1, 60, 90)], known(server(1, 0)), SHARES)
    assert total(activities, None) == (60, 0.9)
