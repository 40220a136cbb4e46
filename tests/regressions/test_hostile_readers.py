"""What fuzzing found in readers of others' bytes: defects, and seconds of the processor for nothing."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tonnage.adapters.kubernetes.answers import STATUS, decoded, refusal
from tonnage.adapters.vendors.driver_root import place_inside
from tonnage.decide.cluster.hami import ALLOCATED, REGISTER, devices_of
from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.documents.node.runtime_config import containerd_config
from tonnage.model.errors import ClusterError
from tonnage.model.whole_numbers import whole_number
from tonnage.twin.apiserver.serving.kubelets.pod_streams import _in_server_words
from tonnage.twin.controllers.deployments.replica_sets import int_or_percent
from tonnage.twin.kubelet.containers.files import FileTree
from tonnage.twin.kubelet.programs.file_commands import tar
from tonnage.twin.kubelet.programs.shell_syntax import parse_script
from tonnage.twin.kubelet.programs.shell_words import ShellUnsupportedError
from tonnage.twin.kubelet.streams.container_logs import LogQuery
from tonnage.twin.kubelet.streams.spdy import SpdyCodec, ping
from tonnage.wire.schema import load_schema

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG = "9" * 5000


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param(LONG, None, id="more digits than Python reads"),
        pytest.param("²", None, id="a digit that is no decimal one"),
        pytest.param("٣", None, id="a digit of another script"),
        pytest.param("", None, id="nothing"),
        pytest.param("007", 7, id="zeros before"),
    ],
)
def test_numbers_in_texts_of_others_are_read_or_passed_over(text: str, number: int | None) -> None:
    assert whole_number(text) == number
    assert int_or_percent(f"{text}%", 100, round_up=True) == (number or 0)


def test_a_share_of_a_gpu_with_an_endless_amount_is_nobody_s() -> None:
    noted = SimpleNamespace(hami={ALLOCATED: f"GPU-0,NVIDIA,{LONG},10:;"})
    [gpu] = devices_of({REGISTER: "GPU-0,10,4096,100,NVIDIA,0,true:"}, cast("Any", [noted])) or ()
    assert gpu.used == 0


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"sinceTime": "9999-12-31T23:59:59-23:59"}, id="after the last moment of dates"),
        pytest.param({"tailLines": "²"}, id="a digit that is no decimal one"),
    ],
)
def test_a_query_of_a_log_beyond_what_there_can_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Invalid value"):
        LogQuery.parse(query, NOON)


def test_a_log_of_more_seconds_than_there_have_been_is_all_of_it() -> None:
    since = LogQuery.parse({"sinceSeconds": "999999999999"}, NOON).since
    assert since is not None
    assert since.year < 2000


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\x03no JSON", id="no JSON"),
        pytest.param(b"\x03{}", id="no Status"),
        pytest.param(b"\x03" + b"[" * 5000, id="nested too deeply"),
        pytest.param(b'\x03{"status":"\xff"}', id="no UTF-8"),
    ],
)
def test_the_last_message_of_a_kubelet_that_makes_no_sense_is_told_as_such(said: bytes) -> None:
    told = _in_server_words(said)
    assert isinstance(told, bytes)
    assert b"is no Status" in told


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"message": "\xff"}', id="no UTF-8"),
        pytest.param(b'{"metadata":' * 5000, id="nested too deeply"),
    ],
)
def test_an_answer_of_an_api_server_that_makes_no_sense_is_told_as_such(body: bytes) -> None:
    assert refusal(404, body).code == 404
    with pytest.raises(ClusterError, match="cannot be read"):
        decoded(STATUS, body)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("if a; then " * 200 + "b; " + "fi; " * 200, id="commands within commands"),
        pytest.param("a; " * 30_000, id="a long one"),
        pytest.param("x" * 100_000, id="a long word"),
    ],
)
def test_a_script_beyond_the_bounds_is_one_that_the_shell_does_not_know(script: str) -> None:
    with pytest.raises(ShellUnsupportedError, match=r"commands within each other|more than 64 KiB"):
        parse_script(script)


class Given:
    """Standard input at once, and what is complained of."""

    def __init__(self, data: bytes) -> None:
        self.data, self.said = data, b""

    async def read(self) -> bytes:
        data, self.data = self.data, b""
        return data

    def write(self, data: bytes) -> None: ...

    def write_error(self, data: bytes) -> None:
        self.said += data


def _sparse() -> bytes:
    entry = tarfile.TarInfo("a")
    entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9" * 18}
    return entry.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def _packed() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a")
        entry.size = 4 << 20
        archive.addfile(entry, io.BytesIO(bytes(4 << 20)))
    return packed.getvalue()


@pytest.mark.parametrize(
    "make",
    [pytest.param(_sparse, id="sparse without a map"), pytest.param(_packed, id="packed")],
)
async def test_an_archive_that_tar_takes_from_no_pipe_is_complained_of(make: Callable[[], bytes]) -> None:
    stdio, files = Given(make()), FileTree()
    context = SimpleNamespace(argv=("tar", "-xmf", "-", "-C", "/tmp"), stdio=stdio, files=files)
    assert await tar(cast("Any", context)) == 2
    assert stdio.said
    assert await files.names("/tmp") == []


def test_frames_are_taken_out_of_a_full_buffer_once() -> None:
    codec = SpdyCodec()
    assert len(list(codec.receive(ping(1) * 20_000 + b"\x80"))) == 20_000
    assert len(codec._buffer) == 1


def test_a_patch_of_thousands_of_elements_compares_each_with_few() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, str(other))

        __hash__ = str.__hash__

    patch: Any = {"containers": [{"name": Name(f"c{n}"), "image": "i"} for n in range(2000)]}
    original: Any = {"containers": [{"name": "c0"}, {"name": "other"}]}
    merged: Any = strategic_merge(load_schema(), "core/v1.PodSpec", original, patch)
    assert len(merged["containers"]) == 2001
    assert compared < 20_000


def test_the_places_of_handlers_are_found_in_one_look_at_the_file() -> None:
    table = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.r%d.options]\nBinaryName = "/r%d"\n'
    text = "version = 2\n" + "".join(table % (n, n) for n in range(60))
    found = containerd_config((("c.toml", text),)).handlers
    assert found["r7"].where == "c.toml:17"
    assert found["r59"].where == "c.toml:121"


@pytest.mark.parametrize(
    "path",
    [pytest.param("/etc/\0", id="a NUL"), pytest.param("/" + "x" * 300 + "/a" * 3000, id="too long")],
)
def test_what_can_be_no_path_names_nothing(path: str, tmp_path: Path) -> None:
    assert place_inside(tmp_path, path) is None
