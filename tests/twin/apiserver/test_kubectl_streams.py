"""kubectl logs and exec: through the API server to the kubelet of the pod's node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.model.json import JsonObject
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.twin.kubelet.programs.image_programs import Programs
from tonnage.twin.kubelet.server import KubeletServer
from tonnage.wire.kinds import POD

pytestmark = pytest.mark.long

SHELL = ["sh", "-c", "echo one; echo two; echo three; sleep 3600"]


@pytest.fixture
async def node(running: Any, folder: Path) -> AsyncIterator[Any]:
    """A kubelet that runs pods named to its node."""
    clock = SystemClock()
    spec = KubeletNode("a100-0")
    devices = ScenarioBackend(folder / "n/hardware.yaml", clock)
    runtime = PretendedRuntime(spec.name, folder / "n", clock, Programs({}), devices)
    kubelet = Kubelet(spec, running.api, clock, folder / "n", runtime)
    serving = running.authority.issue("kubelet", hosts=["127.0.0.1"], server=True)
    server = KubeletServer(running.authority.certificate_pem, serving)
    await server.listen(kubelet)
    task = asyncio.create_task(kubelet.run())
    yield kubelet
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await runtime.shutdown()
    await server.close()


@pytest.fixture
async def train(node: Any, running: Any, kubectl: Any) -> Any:
    """A running pod `train` on that node."""
    containers: Any = [{"name": "main", "image": "ubuntu", "command": SHELL}]
    spec: JsonObject = {"nodeName": node.spec.name, "containers": containers}
    body: JsonObject = {"metadata": {"name": "train"}, "spec": spec}
    await running.api.create(POD, body, namespace="default")
    await kubectl("wait --for=condition=Ready pod/train --timeout=30s")
    return kubectl


async def test_logs_whole_tail_and_with_times(train: Any) -> None:
    assert (await train("logs train")).out == "one\ntwo\nthree\n"
    assert (await train("logs train --tail=1")).out == "three\n"
    stamped = (await train("logs train -c main --timestamps --tail=1")).out
    assert stamped.endswith("Z three\n")


async def test_a_followed_log_stays_open_until_its_reader_leaves(train: Any) -> None:
    process = await train.start("logs", "-f", "train")
    async with asyncio.timeout(60):
        lines = [await process.stdout.readline() for _ in range(3)]
    assert lines == [b"one\n", b"two\n", b"three\n"]
    assert process.returncode is None
    process.kill()
    await process.communicate()


async def test_exec_carries_both_directions_and_the_exit_status(train: Any) -> None:
    echoed = await train("exec -i train -- cat", "hello\nthere\n")
    assert echoed.out == "hello\nthere\n"
    assert (await train(["exec", "train", "--", "echo", "a b", "c"])).out == "a b c\n"
    assert (await train.attempt(["exec", "train", "--", "sh", "-c", "exit 3"])).code == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("logs nobody", 'pods "nobody" not found', id="no such pod"),
        pytest.param(
            "logs train -c other", "container other is not valid for pod train", id="no such container"
        ),
        pytest.param("exec nobody -- ls", 'pods "nobody" not found', id="exec in no such pod"),
    ],
)
async def test_refusals_are_upstreams(train: Any, command: str, words: str) -> None:
    answer = await train.attempt(command)
    assert answer.code == 1
    assert words in answer.err


async def test_a_pod_without_a_node_has_no_log_and_no_shell(kubectl: Any, running: Any) -> None:
    await running.pod("waiting")
    assert (await kubectl("logs waiting")).out == ""
    refused = await kubectl.attempt("exec waiting -- ls")
    assert (refused.code, "pod waiting does not have a host assigned" in refused.err) == (1, True)


async def test_a_kubelet_that_hangs_up_is_an_end_of_file(kubectl: Any, running: Any) -> None:
    """It accepts, and closes before it has said who it is."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await running.node(
            "rude",
            addresses=[{"type": "InternalIP", "address": "127.0.0.1"}],
            daemonEndpoints={"kubeletEndpoint": {"Port": port}},
        )
        await running.pod("left", nodeName="rude")
        for command in ("logs left", "exec left -- ls"):
            assert (await kubectl.attempt(command)).err.endswith(": EOF\n")


async def test_what_a_kubelet_refuses_the_server_says(train: Any, running: Any) -> None:
    """In the words of a genuine server, which is what speaks with kubectl."""
    containers: Any = [
        {"name": "main", "image": "busybox", "command": SHELL},
        {"name": "over", "image": "busybox", "command": ["true"]},
    ]
    spec: JsonObject = {"nodeName": "a100-0", "restartPolicy": "Never", "containers": containers}
    await running.api.create(POD, {"metadata": {"name": "half"}, "spec": spec}, namespace="default")
    await train("wait pod/half --for=jsonpath={.status.containerStatuses[1].state.terminated} --timeout=30s")
    gone = 'error: Internal error occurred: unable to upgrade connection: container not found ("over")\n'
    for command in ("exec half -c over -- ls", "attach half -c over"):
        answer = await train.attempt(command)
        assert (answer.code, answer.err[-len(gone) :]) == (1, gone)
    unknown = (await train.attempt("exec train -- nope")).err
    assert unknown.startswith(
        "error: Internal error occurred: Internal error occurred: error executing command in container: "
    )


async def test_a_kubelet_that_is_gone_is_an_error_not_a_hang(kubectl: Any, running: Any) -> None:
    endpoint = {"kubeletEndpoint": {"Port": 1}}
    await running.node(
        "gone", addresses=[{"type": "InternalIP", "address": "127.0.0.1"}], daemonEndpoints=endpoint
    )
    await running.node("mute")
    await running.pod("lost", nodeName="gone")
    await running.pod("silent", nodeName="mute")
    refused = "dial tcp 127.0.0.1:1: connect: connection refused\n"
    url = "https://127.0.0.1:1/{}/default/lost/main{}"
    for command, words in {
        "logs lost --tail=3": f'Error from server: Get "{url.format("containerLogs", "?tailLines=3")}": ',
        "exec lost -- ls -l": "error: Internal error occurred: error sending request: Post "
        f'"{url.format("exec", "?command=ls&command=-l&error=1&output=1")}": ',
        "attach lost": "error: Internal error occurred: error sending request: Post "
        f'"{url.format("attach", "?error=1&output=1")}": ',
    }.items():
        answer = await kubectl.attempt(command)
        assert (answer.code, answer.err[-len(words + refused) :]) == (1, words + refused)
    elsewhere = {"kubeletEndpoint": {"Port": 70_000}}
    await running.node(
        "odd", addresses=[{"type": "InternalIP", "address": "127.0.0.1"}], daemonEndpoints=elsewhere
    )
    await running.pod("stray", nodeName="odd")
    for command in ("logs stray", "exec stray -- ls"):
        assert (await kubectl.attempt(command)).err.endswith(": dial tcp: address 70000: invalid port\n")
    told = "Error from server: no preferred addresses found; known addresses: []\n"
    assert (await kubectl.attempt("logs silent")).err == told


@pytest.mark.usefixtures("train")
async def test_without_a_websocket_exec_says_what_it_needs(running: Any) -> None:
    answer = await running.http("POST", "/api/v1/namespaces/default/pods/train/exec?command=ls")
    assert (answer.code, answer.json["message"]) == (400, "Upgrade request required")


async def test_kubectl_debug_adds_to_pods_copies_them_and_looks_into_nodes(train: Any) -> None:
    added = await train("debug train --image=busybox --target=main -c dbg --attach=false -- sleep 100")
    assert added.out.startswith('Targeting container "main".')
    path = "jsonpath={.status.ephemeralContainerStatuses[0].state.running}"
    await train(f"wait pod/train --for={path} --timeout=30s")
    assert (await train("exec train -c dbg -- printenv HOSTNAME")).out == "train\n"
    await train("debug train --copy-to=copy --set-image=*=busybox --attach=false")
    assert (await train("get pod copy -o jsonpath={.spec.containers[0].image}")).out == "busybox"
    made = await train("debug node/a100-0 --image=busybox --attach=false -- sleep 100")
    assert (await train(f"get {made.out.split()[2]}/{made.out.split()[3]} -o name")).code == 0


async def test_kubectl_cp_carries_files_there_and_back(train: Any, folder: Path) -> None:
    (folder / "here").write_text("one\ntwo\n")
    await train(f"cp {folder}/here train:/tmp/there")
    assert (await train("exec train -- cat /tmp/there")).out == "one\ntwo\n"
    await train(f"cp train:/tmp/there {folder}/back")
    assert (folder / "back").read_text() == "one\ntwo\n"
