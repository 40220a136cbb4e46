"""Facts out of a node that nobody vouches for: nothing hangs, nothing raises, what is unknown says so."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sick_node import PLUGINS, SickNode, loader_cache
from tonnage.adapters.node_facts.cluster import asked_cluster, cluster_facts
from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.loader_cache import cached_libraries
from tonnage.adapters.node_facts.plugin import plugin_facts
from tonnage.adapters.node_facts.processes import gpu_containers
from tonnage.adapters.node_facts.runtime_version import text_fields
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.doctor.finding import NodeFinding
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonValue
from tonnage.model.reasons.node.cdi import CdiSpecInvalid
from tonnage.model.reasons.node.kubelet_files import KubeletCheckpointUnreadable
from tonnage.model.reasons.node.plugin import GpuConfigUnreadable
from tonnage.model.reasons.node.runtime import RuntimeConfigInvalid
from tonnage.model.reasons.node.toolkit import ToolkitConfigInvalid
from tonnage.model.reasons.reason import NodeReason
from tonnage.model.severity import Severity

FILES = (
    "etc/containerd/config.toml",
    "etc/containerd/conf.d/a.toml",
    "etc/crio/crio.conf",
    "etc/nvidia-container-runtime/config.toml",
    "etc/ld.so.cache",
    "etc/os-release",
    "etc/modprobe.d/a.conf",
    "var/run/cdi/a.json",
    "etc/cdi/b.yaml",
    "var/lib/dpkg/status",
    "var/lib/tonnage/device-plugin-config",
    "var/lib/tonnage/agent.lock",
    f"{PLUGINS}/kubelet_internal_checkpoint",
    f"{PLUGINS}/kubelet.sock",
    f"{PLUGINS}/nvidia-gpu.sock",
    "proc/42/cmdline",
    "proc/42/mountinfo",
    "proc/42/environ",
    "proc/42/cgroup",
    "proc/devices",
    "proc/driver/nvidia/version",
    "proc/sys/kernel/osrelease",
    "lib/modules/6.8.0-51-generic/modules.dep",
    "sys/bus/pci/devices/0000:17:00.0/vendor",
    "run/nvidia/validations/driver-ready",
)
"""All that doctor reads is of one of these kinds."""


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


def _garbage(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 64)


def _huge(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(100 << 20)


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _loop(file: Path) -> None:
    file.symlink_to(file.name)


def _nowhere(file: Path) -> None:
    file.symlink_to("/nowhere")


def _folder(file: Path) -> None:
    file.mkdir()


def _out(file: Path) -> None:
    file.symlink_to("../" * 20 + "etc/passwd")


def _brackets(file: Path) -> None:
    file.write_bytes(b"[" * 200_000)


def _socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"/proc/self/fd/{os.open(file.parent, os.O_PATH)}/{file.name}")


@pytest.mark.parametrize(
    "spoil",
    [_garbage, _huge, _pipe, _loop, _nowhere, _folder, _out, _brackets, _socket],
    ids=lambda f: f.__name__[1:],
)
async def test_whatever_lies_in_the_place_of_every_file_there_is_an_answer(
    node: SickNode, spoil: object
) -> None:
    assert callable(spoil)
    for name in FILES:
        file = node.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        spoil(file)
    report = examine(await node.facts())
    assert len(report.layers) == 10
    assert not report.healthy


async def test_a_link_does_not_lead_out_of_the_root(node: SickNode, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    node.link("etc/containerd/config.toml", f"{tmp_path}/secret")
    found = NodeFiles(node.root).read("/etc/containerd/config.toml")
    assert (found.content, found.trouble) == (None, "its links are broken")


@pytest.mark.parametrize(
    ("path", "text", "code", "where"),
    [
        ("etc/containerd/config.toml", "version = 3\n[a\n", RuntimeConfigInvalid, "config.toml:2:3"),
        ("etc/containerd/conf.d/x.toml", "a = 1\na = 2\n", RuntimeConfigInvalid, "/conf.d/x.toml:2:6"),
        ("etc/crio/crio.conf.d/x.conf", "[crio", RuntimeConfigInvalid, "/etc/crio/crio.conf.d/x.conf:1"),
        ("etc/nvidia-container-runtime/config.toml", "x", ToolkitConfigInvalid, "config.toml:1"),
        ("etc/cdi/nvidia.yaml", "kind: [", CdiSpecInvalid, "/etc/cdi/nvidia.yaml"),
        ("var/run/cdi/x.json", '{"cdiVersion": "9"}', CdiSpecInvalid, "/var/run/cdi/x.json"),
        (f"{PLUGINS}/kubelet_internal_checkpoint", "{}", KubeletCheckpointUnreadable, "checkpoint"),
        ("var/lib/tonnage/device-plugin-config", "?", GpuConfigUnreadable, "/var/lib"),
    ],
)  # fmt: skip
async def test_a_broken_file_is_named_with_the_line(
    node: SickNode, path: str, text: str, code: type[NodeReason], where: str
) -> None:
    node.put(path, text)
    found = [each for each in examine(await node.facts()).findings if isinstance(each.reason, code)]
    assert [where in each.place for each in found] == [True]
    assert found[0].why


def _codes(findings: tuple[NodeFinding, ...]) -> list[str]:
    return [finding.code for finding in findings if finding.severity is Severity.ERROR]


@contextmanager
def as_nobody() -> Iterator[None]:
    """What a person without rights may do, also where tests run as root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("folder", [PLUGINS, "var/lib/tonnage", "var/lib/kubelet"])
def test_what_lies_in_a_closed_folder_is_not_taken_for_absent(node: SickNode, folder: str) -> None:
    files = NodeFiles(node.root)
    node.root.chmod(0o755)
    (node.root / folder).chmod(0)
    try:
        with as_nobody():
            socket_there, plugin = files.socket(f"/{PLUGINS}/kubelet.sock"), plugin_facts(files, [])
    finally:
        (node.root / folder).chmod(0o755)
    assert socket_there is not None
    if "kubelet" in folder:
        assert socket_there.answer == "permission denied: needs root"
    else:
        assert (plugin.running, plugin.lock_trouble) == (None, "permission denied: needs root")


async def test_a_refusal_for_lack_of_permission_is_a_note(
    node: SickNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without being somebody else: root is refused nothing."""
    opened = os.open

    def refusing(path: object, flags: int, *rest: int) -> int:
        if str(path).endswith(("config.toml", "kubelet_internal_checkpoint", "agent.lock")):
            raise PermissionError(13, "no")
        return opened(path, flags, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    report = examine(await node.facts())
    assert _codes(report.findings) == []
    assert {finding.why for finding in report.findings} == {"permission denied: needs root"}
    assert [
        layer.because for layer in report.layers if "lock" in layer.because or "agent" in layer.because
    ] == ["whether the agent runs: permission denied: needs root"]


def test_a_socket_is_told_from_one_that_nobody_listens_on_however_long_its_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    folder.mkdir(parents=True)
    short = f"/proc/self/fd/{os.open(folder, os.O_PATH)}"
    files = NodeFiles(folder)
    with socket.socket(socket.AF_UNIX) as heard, socket.socket(socket.AF_UNIX) as left:
        heard.bind(f"{short}/a.sock")
        heard.listen()
        left.bind(f"{short}/b.sock")
        (folder / "c.sock").touch()
        seen = {name: files.socket(f"/{name}") for name in ("a.sock", "b.sock", "c.sock", "d.sock")}
    answers = {name: found and found.answer for name, found in seen.items()}
    assert answers == {
        "a.sock": "listens",
        "b.sock": "nobody",
        "c.sock": "it is not a socket",
        "d.sock": None,
    }


def test_the_loaders_cache_is_read_also_behind_an_old_one() -> None:
    cache = loader_cache({"libcuda.so.1": "/usr/lib/libcuda.so.1", "libc.so.6": "/lib/libc.so.6"})
    for content in (cache, b"ld.so-1.7.0\0" + bytes(4) + cache):
        assert cached_libraries(content, ["libcuda.so.1", "libx.so"]) == {
            "libcuda.so.1": ("/usr/lib/libcuda.so.1",),
            "libx.so": (),
        }


@given(st.binary(max_size=400))
def test_no_loaders_cache_and_no_message_is_too_odd(content: bytes) -> None:
    cached_libraries(content, ["a"])
    cached_libraries(b"glibc-ld.so.cache1.1" + content, ["a"])
    text_fields(content)


def test_the_machines_own_cache_has_the_c_library() -> None:
    content = Path("/etc/ld.so.cache").read_bytes()
    found = cached_libraries(content, ["libc.so.6"])
    assert found is not None
    assert Path(found["libc.so.6"][0]).exists()


def test_a_secret_in_the_environment_of_a_container_stays_there(node: SickNode) -> None:
    node.container(77, [0], {"TOKEN": "hunter2", "CUDA_VISIBLE_DEVICES": "0"})
    (found,) = gpu_containers(NodeFiles(node.root), [1, 42, 77])
    assert (found.namespace, found.pod, found.container) == ("ml", "train", "main")
    assert found.env == {"CUDA_VISIBLE_DEVICES": "0"}
    assert found.minors == frozenset({0})


class Server:
    """An API server's raw answers by the path before the question mark; a number is a refusal."""

    def __init__(self, answers: dict[str, JsonValue]) -> None:
        self._answers = answers
        self.asked: list[str] = []
        self.server_ahead_s = 0.0

    async def get_raw(self, path: str) -> JsonValue:
        self.asked.append(path)
        answer = self._answers[path.partition("?")[0]]
        if isinstance(answer, int):
            raise ApiError(answer, "Forbidden", "no")
        return answer


async def test_the_cluster_is_asked_for_no_more_than_the_agents_role_allows() -> None:
    status: JsonValue = {
        "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4"},
        "capacity": {"a.com/b": "2"},
    }
    node: JsonValue = {"metadata": {"name": "a", "labels": {"x": "y"}}, "status": status}
    pod: JsonValue = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}, "status": {}}
    server = Server(
        {
            "/api/v1/nodes": {"kind": "NodeList", "items": [node]},
            "/api/v1/pods": {"kind": "PodList", "items": [pod]},
            "/apis/node.k8s.io/v1/runtimeclasses": 403,
            "/apis/tonnage.dev/v1alpha1/nodegpustatuses": {
                "kind": "NodeGPUStatusList",
                "items": [{"metadata": {"name": "a"}, "status": {"heartbeatAt": "2026-05-01T12:00:00Z"}}],
            },
        }
    )
    found, _ = await asked_cluster(server, "a")
    assert found is not None
    assert (found.labels, found.capacity, found.runtime) == ({"x": "y"}, {"a.com/b": 2}, "containerd://2.1.4")
    assert [(each.namespace, each.name) for each in found.pods] == [("n", "p")]
    assert found.heartbeat == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert found.read_at is not None
    assert server.asked[0] == "/api/v1/nodes?fieldSelector=metadata.name%3Da"
    nothing, forbidden = await asked_cluster(server, "b")
    assert nothing is None
    assert forbidden == {"RuntimeClass"}


_KEYS = ["kind", "metadata", "items", "spec", "status", "name", "labels", "conditions", "nodeInfo"]
_ODD = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(_ODD)
def test_objects_of_any_shape_are_read(value: JsonValue) -> None:
    cluster_facts([value, {"kind": "Node", "metadata": {"name": "a"}, "status": value, "spec": value}], "a")
    cluster_facts([{"kind": "Pod", "spec": {"nodeName": "a", "containers": value}, "metadata": value}], "a")
