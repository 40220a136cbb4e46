"""Files of pretended containers: what programs write, and what volumes hold."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from support.kubelet_bench import KubeletBench
from tonnage.twin.kubelet.containers.files import FileError, FileTree, MemoryVolume, MountedVolume
from tonnage.wire import kinds

SLEEP = ["sleep", "infinity"]
_PIECE = 64 << 10
_NO_FILE = "No such file or directory\n"


class Output:
    """A person at a command: what it says, and what it is given."""

    def __init__(self, given: bytes = b"") -> None:
        self.given = given
        self.said = b""

    async def read(self) -> bytes:
        data, self.given = self.given[:_PIECE], self.given[_PIECE:]
        return data

    def write(self, data: bytes) -> None:
        self.said += data

    def write_error(self, data: bytes) -> None:
        self.said += data


async def run(bench: KubeletBench, *argv: str, given: bytes = b"", container: int = 0) -> tuple[int, bytes]:
    """Exit code and output of a command in a container of the pod `web`."""
    output = Output(given)
    found = bench.runtime.containers("uid-web")[container]
    code = await bench.runtime.execute(found, argv, output, interactive=False)
    return code, output.said


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        pytest.param("echo one > /tmp/a; echo two >> /tmp/a; cat /tmp/a", 0, "one\ntwo\n", id="redirected"),
        pytest.param("cat < /tmp/none", 1, f"sh: line 1: /tmp/none: {_NO_FILE}", id="no input"),
        pytest.param("echo x > /tmp/a; cat < /tmp/a", 0, "x\n", id="input"),
        pytest.param("> /tmp/a; test -f /tmp/a && ! test -s /tmp/a", 0, "", id="emptied"),
        pytest.param("echo x > /none/a", 1, f"sh: line 1: /none/a: {_NO_FILE}", id="no folder"),
        pytest.param("mkdir -p /a/b; touch /a/b/c; ls /a; ls /a/b", 0, "b\nc\n", id="folders"),
        pytest.param(
            "mkdir /a/b",
            1,
            f"mkdir: cannot create directory '/a/b': {_NO_FILE}",
            id="no parent",
        ),
        pytest.param("mkdir /tmp/a/; mkdir -p /tmp/a; ls /tmp", 0, "a\n", id="a slash at the end"),
        pytest.param(
            "touch /tmp/a; mkdir /tmp/a",
            1,
            "mkdir: cannot create directory '/tmp/a': File exists\n",
            id="taken",
        ),
        pytest.param(
            "touch /tmp/a; mkdir -p /tmp/a/b",
            1,
            "mkdir: cannot create directory '/tmp/a/b': Not a directory\n",
            id="in a file",
        ),
        pytest.param(
            "echo one > /dev/stdout; echo two > /dev/stderr; [ -e /dev/stdout ]",
            1,
            "one\ntwo\n",
            id="streams",
        ),
        pytest.param("touch /tmp/a; rm /tmp/a; rm -f /tmp/a; [ -e /tmp/a ]", 1, "", id="removed"),
        pytest.param("rm /tmp/a", 1, f"rm: cannot remove '/tmp/a': {_NO_FILE}", id="not there"),
        pytest.param("rm /tmp", 1, "rm: cannot remove '/tmp': Is a directory\n", id="a folder"),
        pytest.param("cat /tmp", 1, "cat: /tmp: Is a directory\n", id="no text"),
        pytest.param("test -d /tmp && [ -e /tmp/../etc ]", 0, "", id="tests"),
    ],
)
async def test_programs_write_and_read_files(bench: KubeletBench, script: str, code: int, said: str) -> None:
    bench.bind("web", command=SLEEP)
    await bench.phase("web", "Running")
    assert await run(bench, "sh", "-c", script) == (code, said.encode())


async def test_a_probe_looks_for_a_file_that_the_container_takes_away(bench: KubeletBench) -> None:
    script = "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600"
    probe = {"exec": {"command": ["cat", "/tmp/healthy"]}, "initialDelaySeconds": 5, "periodSeconds": 5}
    command = ["/bin/sh", "-c", script]
    container = {"name": "main", "image": "busybox", "command": command, "livenessProbe": probe}
    bench.bind("web", containers=[container])
    await bench.phase("web", "Running")
    await bench.clock.advance(29)
    assert not any("Unhealthy" in event for event in bench.api.events("web"))
    await bench.clock.advance(16)
    failed = "Liveness probe failed: cat: /tmp/healthy: No such file or directory\n"
    await bench.api.until(lambda: f"Warning Unhealthy {failed} x3" in bench.api.events("web"))


async def test_volumes_hold_what_objects_say_and_containers_write(bench: KubeletBench) -> None:
    await bench.api.create(
        kinds.CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}, namespace="default"
    )
    await bench.api.create(
        kinds.SECRET, {"metadata": {"name": "s"}, "data": {"key": "c2VjcmV0"}}, namespace="default"
    )
    name = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    cpu = {"path": "cpu", "resourceFieldRef": {"containerName": "one", "resource": "limits.cpu"}}
    sources = [{"secret": {"name": "s"}}, {"downwardAPI": {"items": [name, cpu]}}]
    volumes = [
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "some", "configMap": {"name": "c", "items": [{"key": "b", "path": "deep/file"}]}},
        {"name": "all", "projected": {"sources": sources}},
        {"name": "lost", "secret": {"secretName": "none", "optional": True}},
        {"name": "shared", "emptyDir": {}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/v/{one['name']}"} for one in volumes]
    one: dict[str, Any] = {"name": "one", "image": "busybox", "command": SLEEP, "volumeMounts": mounts}
    file = {"name": "config", "mountPath": "/etc/a.conf", "subPath": "a"}
    two = {**one, "name": "two", "volumeMounts": [{"name": "shared", "mountPath": "/data"}, file]}
    one["resources"] = {"limits": {"cpu": "2"}}
    bench.bind("web", containers=[one, two], volumes=volumes)
    await bench.phase("web", "Running")
    assert await run(bench, "ls", "/v") == (0, b"all\nconfig\nlost\nshared\nsome\n")
    assert await run(bench, "ls", "/v/config") == (0, b"a\nb\n")
    assert await run(bench, "cat", "/v/config/a", "/v/some/deep/file") == (0, b"12")
    assert await run(bench, "cat", "/v/all/key", "/v/all/name", "/v/all/cpu") == (0, b"secretweb2")
    refused = b"touch: cannot touch '/v/config/x': Read-only file system\n"
    assert await run(bench, "touch", "/v/config/x") == (1, refused)
    assert await run(bench, "sh", "-c", "echo hello > /v/shared/file") == (0, b"")
    assert await run(bench, "cat", "/data/file", "/etc/a.conf", container=1) == (0, b"hello\n1")


async def test_a_volume_is_mounted_where_a_variable_says(bench: KubeletBench) -> None:
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    whole = {"name": "whole", "image": "busybox", "command": SLEEP, "env": env}
    own = {**whole, "name": "own"}
    whole["volumeMounts"] = [{"name": "shared", "mountPath": "/all"}]
    own["volumeMounts"] = [{"name": "shared", "mountPath": "/v", "subPathExpr": "logs/$(POD)"}]
    bench.bind("web", containers=[whole, own], volumes=[{"name": "shared", "emptyDir": {}}])
    await bench.phase("web", "Running")
    assert await run(bench, "sh", "-c", "echo hello > /v/file", container=1) == (0, b"")
    assert await run(bench, "cat", "/all/logs/web/file") == (0, b"hello\n")


async def test_files_travel_as_kubectl_cp_has_them(bench: KubeletBench) -> None:
    bench.bind("web", command=SLEEP)
    await bench.phase("web", "Running")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("deep/file")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))
    assert await run(bench, "mkdir", "-p", "/tmp/deep") == (0, b"")
    given = packed.getvalue()
    assert await run(bench, "tar", "-xmf", "-", "-C", "/tmp", given=given) == (0, b"")
    code, said = await run(bench, "tar", "cf", "-", "/tmp/deep")
    with tarfile.open(fileobj=io.BytesIO(said)) as archive:
        found = archive.extractfile("tmp/deep/file")
        assert (code, found and found.read()) == (0, b"hello")
    assert (await run(bench, "tar", "cf", "-", "/nowhere"))[0] == 2


async def test_what_is_no_file_in_an_archive_is_told_and_the_rest_unpacked(bench: KubeletBench) -> None:
    bench.bind("web", command=SLEEP)
    await bench.phase("web", "Running")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        link, large = tarfile.TarInfo("link"), tarfile.TarInfo("large")
        link.type, link.linkname, large.size = tarfile.SYMTYPE, "nowhere", 3 << 20
        archive.addfile(link)
        archive.addfile(large, io.BytesIO(bytes(large.size)))
    said = b"tar: link: the twin reads no links and devices from archives\n"
    given = packed.getvalue()
    assert await run(bench, "tar", "-xmf", "-", "-C", "/tmp", given=given) == (2, said)
    assert await run(bench, "sh", "-c", "ls /tmp; test -s /tmp/large") == (0, b"large\n")


async def test_what_a_program_leaves_as_its_last_words_is_told(bench: KubeletBench) -> None:
    command = ["sh", "-c", "echo done > /dev/termination-log"]
    bench.bind("web", command=command, restartPolicy="Never")
    status = await bench.phase("web", "Succeeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["message"] == "done\n"


async def test_a_volume_has_an_end() -> None:
    tree = FileTree({"/v": MountedVolume(MemoryVolume(), "inside")})
    await tree.write("/v/a", bytes(5 << 20))
    with pytest.raises(FileError, match="No space left on device"):
        await tree.write("/v/b", bytes(4 << 20))
