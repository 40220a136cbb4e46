"""Files with a cluster that come to far more than their size says: refused, with the option that helps."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from support.peak_memory import peak_mib
from tonnage.adapters.snapshots.cluster_file import read_objects
from tonnage.adapters.snapshots.format import Header, encoded
from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.cli.cluster import read_snapshot
from tonnage.cli.main import run, tonnage
from tonnage.model.errors import ConfigError, Problem

pytestmark = pytest.mark.long

HEADER = encoded(Header(server_version="v1.35.0", taken_at="2026-01-02T03:04:05Z"))
LIST = b'{"apiVersion":"v1","kind":"List","items":[%s]}'
POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"}}'
DEEP = b'{"x":' * 100_000


def refused(path: Path, limit: SizeLimit) -> Problem:
    with pytest.raises(ConfigError) as caught:
        read_snapshot(path, limit)
    with pytest.raises(ConfigError):
        list(read_objects(path, limit))
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("content", "what", "place"),
    [
        pytest.param(HEADER + b" " * 80_000 + b"\n", "more than 64Ki unpacked", ":2", id="a snapshot's line"),
        pytest.param(
            HEADER + (POD + b"\n") * 2000, "more than 64Ki unpacked", ":897", id="a snapshot's lines"
        ),
        pytest.param(LIST % (b" " * 80_000), "more than 64Ki unpacked", "", id="a List"),
        pytest.param(b"[" + b"[]," * 9999 + b"[]]", "JSON of more than 8Ki", "", id="empty lists"),
        pytest.param(b"[" + b"1," * 999 + b"1]", "JSON of more than 256 values", "", id="numbers"),
        pytest.param(b"a: " + b"x" * 80_000, "more than 64Ki unpacked", "", id="YAML"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_file_beyond_the_limit_is_refused(
    content: bytes, what: str, place: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    path.write_bytes(gzip.compress(content) if packed else content)
    problem = refused(path, SizeLimit(64 << 10))
    assert (problem.what, problem.where) == (what, f"{path}{place}")
    assert "--max-size" in problem.remedy


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"[" * 200_000, id="brackets"),
        pytest.param(DEEP, id="braces that begin no snapshot"),
        pytest.param(LIST % DEEP, id="braces in a List"),
        pytest.param(LIST % (b'{"x":[' * 900 + b"]}" * 900), id="a List that is well but for its depth"),
        pytest.param(HEADER + POD[:-1] + b',"spec":' + DEEP + b"\n", id="braces in a snapshot"),
        pytest.param(HEADER[:-2] + b',"x":' + DEEP + b"\n", id="braces in its first line"),
    ],
)
def test_what_is_nested_too_deeply_is_no_valid_json(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    assert refused(path, SizeLimit()).what == "not valid JSON"


def test_a_key_that_stands_twice_among_very_many_is_named_at_once(tmp_path: Path) -> None:
    """It took twelve seconds: each name was counted in all of them."""
    path = tmp_path / "c.json"
    keys = ",".join(f'"k{number}":0' for number in range(100_000))
    path.write_text(f'{{{keys},"k99999":1}}')
    assert refused(path, SizeLimit()).why == "duplicate key k99999"


def test_a_large_list_of_nothing_is_refused_by_the_number_of_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(LIST % b",".join([b'{"metadata":{}}'] * 300_000))
    assert refused(path, SizeLimit(16 << 20)).what == "a List of more than 32,768 objects"


def test_objects_of_a_large_list_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    pods = [POD.replace(b'"a"', b'"p%d"' % number) for number in range(60_000)]
    path.write_bytes(LIST % b",".join(pods))
    found = list(read_objects(path))
    assert [one["items"] for one in found if isinstance(one, dict)] == [[json.loads(pod)] for pod in pods]
    assert len(read_snapshot(path).pods) == 60_000


_STATUS = """
import sys
from tonnage.cli.main import run, tonnage
run(sys.argv[1:], "tonnage")
"""


def test_a_packed_file_that_unpacks_to_a_thousand_times_its_size_takes_little_memory(tmp_path: Path) -> None:
    """122 KB came to 3.1 GB: most of it were the values of a text that was read before it was looked at."""
    path = tmp_path / "c.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"[]," * (40 << 20) + b"[]]", 9))
    assert path.stat().st_size < 200_000
    peak, told = peak_mib(_STATUS, "status", "--snapshot", str(path))
    assert "JSON of more than 64Mi" in told
    assert peak < 300


@pytest.mark.parametrize(
    ("size", "status"), [("64Ki", 2), ("16Mi", 0), ("0", 2), ("lots", 2), ("2Ti", 2), ("-1", 2)]
)
def test_the_limit_is_set_by_an_option(size: str, status: int, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(LIST % b",".join([POD.replace(b'"a"', b'"p%d"' % n) for n in range(2000)]))
    assert run(["status", "--snapshot", str(path), "--max-size", size], "tonnage") == status


def test_a_trace_beyond_the_limit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes, jobs = tmp_path / "nodes.csv.gz", tmp_path / "jobs.csv"
    nodes.write_bytes(gzip.compress(b"sn,cpu_milli,memory_mib,gpu,model\n" + b"\n" * 100_000))
    jobs.write_bytes(b"")
    assert run(["simulate", "trace", str(nodes), str(jobs), "--max-size", "64Ki"], "tonnage") == 2
    assert "more than 64Ki unpacked" in capsys.readouterr().err


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")
        yield f"{name} {word}", command


def test_every_command_that_reads_such_files_has_the_option() -> None:
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(tonnage, "tonnage")
    }
    reads = {name for name, known in options.items() if "--snapshot" in known} | {"tonnage simulate trace"}
    assert len(reads) > 5
    assert reads == {name for name, known in options.items() if "--max-size" in known}
