"""Two agents on a node while one replaces the other: kubelet asks either about claims, and one decides."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from support.claim_kubelet import ClaimKubelet, eventually
from support.claim_node import ALL, NODE, ClaimNode, names, sharing
from support.prometheus import free_port
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubelet.claim_sockets import ClaimFolder
from tonnage.adapters.node_lock import alone_on
from tonnage.agent.claims.standby import ClaimStandby, StandbyPorts
from tonnage.agent.events import NodeEvents
from tonnage.model.devices.claims import DRIVER
from tonnage.model.errors import HardwareError
from tonnage.ports.claims import EarlySockets
from tonnage.twin.mps_control import MpsProgram
from tonnage.wire.kubelet.claim_methods import V1BETA1


def kubelets(scene: ClaimNode) -> tuple[ClaimKubelet, ClaimKubelet]:
    return ClaimKubelet(scene.root, "pod-a"), ClaimKubelet(scene.root, "pod-b")


async def test_calls_go_to_either_of_two_agents_and_no_gpu_is_given_out_twice(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    first, second = kubelets(scene)
    async with scene.agent(pod="pod-b"):
        await second.register()
    async with scene.agent(pod="pod-a"):
        await first.register()
        [before] = await scene.slices(lambda listing: len(names(listing)) == 3)
        async with scene.agent(pod="pod-b"):
            await second.register()
            claim, other = await scene.claim("train", "gpu-0"), await scene.claim("other", "gpu-0")
            answer = (await second.prepare(claim))[claim.uid]
            assert answer.error == ""
            assert (await first.prepare(claim, version=V1BETA1))[claim.uid] == answer
            for kubelet in (first, second):
                assert "is held as claim ml/train" in (await kubelet.prepare(other))[other.uid].error
            assert await second.unprepare(claim) == {claim.uid: ""}
            assert (await first.prepare(other))[other.uid].error == ""
            async with second.health("v1.DRAResourceHealth") as reports:
                assert (await anext(reports))[f"{NODE}/gpu-0"] == "HEALTHY"
        assert not second.socket.exists(), "one that ends before it had the node leaves the other alone"
        assert await first.unprepare(other) == {other.uid: ""}
        [after] = await scene.slices(lambda listing: len(names(listing)) == 3)
        assert after.metadata.resource_version == before.metadata.resource_version


async def test_the_next_agent_answers_what_it_was_asked_while_the_one_before_ended(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    first, second = kubelets(scene)
    held, late = await scene.claim("train", "gpu-0"), await scene.claim("late", "gpu-1")
    async with scene.agent(pod="pod-a"):
        await first.register()
        answer = (await first.prepare(held))[held.uid]
        [before] = await scene.slices(lambda listing: len(names(listing)) == 3)
        entered = asyncio.Event()
        after = asyncio.create_task(_replaced(scene, second, entered))
        await entered.wait()
        asked = [asyncio.create_task(second.prepare(claim)) for claim in (held, late)]
    answers = {uid: answer for each in asked for uid, answer in (await each).items()}
    assert answers[held.uid] == answer
    assert answers[late.uid].error == ""
    [published] = await scene.slices(lambda listing: len(names(listing)) == 3)
    assert published.metadata.uid == before.metadata.uid
    assert await second.unprepare(held, late) == {held.uid: "", late.uid: ""}
    assert not first.socket.exists()
    after.cancel()
    await asyncio.gather(after, return_exceptions=True)


async def _replaced(scene: ClaimNode, kubelet: ClaimKubelet, entered: asyncio.Event) -> None:
    async with scene.agent(pod="pod-b"):
        await kubelet.register()
        entered.set()
        await asyncio.get_running_loop().create_future()


async def ready(port: int) -> tuple[int, str]:
    """What the probe at /readyz is answered; nothing while nobody listens."""

    def ask() -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


@pytest.mark.long
async def test_an_update_waits_for_claims_whose_mps_daemon_would_end_with_the_agent(scene: ClaimNode) -> None:
    await scene.begin(f"{ALL}flags: {{mpsRoot: /run/nvidia/mps}}\n")
    MpsProgram(scene.root).install()
    first, second = kubelets(scene)
    async with scene.agent(pod="pod-a"):
        await first.register()
        claim = await scene.claim("shared", "gpu-0", config=sharing(strategy="MPS"))
        assert not (await first.prepare(claim))[claim.uid].error
        port = free_port()
        async with scene.agent(pod="pod-b", port=port):
            await second.register()
            why = "MPS control daemons of claims would end, and their containers with them: ml/shared"

            async def answers(status: int, text: str) -> bool:
                found = await ready(port)
                return found[0] == status and text in found[1]

            await eventually(lambda: answers(503, why))

            async def told() -> bool:
                return any(why in event.message for event in await scene.events())

            await eventually(told)
            assert await second.unprepare(claim) == {claim.uid: ""}
            await eventually(lambda: answers(200, "ok"))


@pytest.mark.parametrize(
    ("saved", "why"),
    [
        pytest.param(b"no checkpoint", "its checksum is wrong", id="damaged"),
        pytest.param(None, "Is a directory", id="unreadable"),
    ],
)
async def test_an_update_waits_where_the_claims_file_cannot_be_read(
    scene: ClaimNode, saved: bytes | None, why: str
) -> None:
    await scene.begin(ALL)
    first, second = kubelets(scene)
    file = scene.root / "var/lib/tonnage/claims"
    async with scene.agent(pod="pod-a"):
        await first.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        file.unlink(missing_ok=True)
        if saved is None:
            file.mkdir()
        else:
            file.write_bytes(saved)
        async with scene.agent(pod="pod-b"):
            await second.register()

            async def told() -> bool:
                return any(
                    f"the claims file cannot be read ({why})" in event.message
                    for event in await scene.events()
                )

            await eventually(told)


async def test_an_unexpected_error_while_it_stands_by_ends_the_agent(tmp_path: Path) -> None:
    def broken() -> EarlySockets:
        raise RuntimeError("broken")

    async def answer_probes(_missing: Callable[[], tuple[str, ...]]) -> None:
        await asyncio.Event().wait()

    clock = SystemClock()
    ports = StandbyPorts(broken, lambda _name: None, answer_probes, NodeEvents(NODE, None, clock))
    standby = ClaimStandby(NODE, clock, ports)
    async with asyncio.timeout(20), alone_on(tmp_path / "lock", clock):
        with pytest.raises(RuntimeError, match="broken"):
            async with alone_on(tmp_path / "lock", clock, beside=standby.keep):
                pass
    await standby.close()


async def test_a_link_to_the_holder_that_cannot_be_made_is_told_and_made_later(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    link = scene.root / "var/lib/kubelet/plugins" / DRIVER / "tonnage.sock"
    (link / "full").mkdir(parents=True)
    first, _ = kubelets(scene)
    async with scene.agent(pod="pod-a"):
        await first.register()

        async def told() -> bool:
            return any("the link by which the next agent" in event.message for event in await scene.events())

        await eventually(told)
        (link / "full").rmdir()
        link.rmdir()
        await eventually(link.is_symlink)
        await scene.slices(lambda listing: len(names(listing)) == 3)


async def test_sockets_of_a_killed_agent_are_removed_by_the_next_and_those_of_others_are_not(
    scene: ClaimNode,
) -> None:
    await scene.begin(ALL)
    registry, plugins = scene.kubelet.registry, scene.root / "var/lib/kubelet/plugins" / DRIVER
    plugins.mkdir(parents=True)
    dead = [registry / f"{DRIVER}-tonnage-pod-x-reg.sock", plugins / "tonnage-pod-x.sock"]
    foreign = registry / "gpu.example.com-reg.sock"
    for file in (*dead, foreign):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(file))
    first, _ = kubelets(scene)
    async with scene.agent(pod="pod-a"):
        await first.register()
        await eventually(lambda: not any(file.exists() for file in dead))
        assert foreign.exists()
        assert (plugins / "tonnage.sock").readlink() == Path("tonnage-pod-a.sock")
    assert not (plugins / "tonnage.sock").is_symlink()


@pytest.mark.parametrize(
    ("length", "fits"),
    [
        pytest.param(26, True, id="a-digest-stands-for-the-uid"),
        pytest.param(90, False, id="not-even-that"),
    ],
)
async def test_a_socket_path_has_107_bytes_at_most(scene: ClaimNode, length: int, fits: bool) -> None:
    root = scene.root / ("x" * (length - len(str(scene.root))))
    folder = ClaimFolder(root, "/var/lib/kubelet", "8f1c6a52-6a1c-4f0e-9d0e-3f6b1c2d4e5f")
    if not fits:
        with pytest.raises(HardwareError, match="path of the plugin's socket is too long"):
            await folder.stand_by()
        assert not list(root.rglob("*.sock"))
        return
    await folder.stand_by()
    try:
        assert all(len(str(file)) <= 107 for file in root.rglob("*.sock"))
        assert len(list(root.rglob("*.sock"))) == 2
    finally:
        await folder.close()
    assert not list(root.rglob("*.sock"))
