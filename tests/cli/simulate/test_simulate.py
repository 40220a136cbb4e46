"""`tonnage simulate trace`: its table, its JSON, what it refuses; with openb itself, what is published."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tonnage.cli.simulate.command import command

OPENB = os.environ.get("TONNAGE_OPENB", "")
MACHINES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{n},64000,262144,4,T4\n" for n in range(5))
JOBS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"j{n},4000,1024,1,{200 * (1 + n % 5)}\n" for n in range(20)
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    nodes, jobs = tmp_path / "nodes.csv", tmp_path / "openb_pod_list_default.csv.gz"
    nodes.write_text(MACHINES)
    jobs.write_bytes(gzip.compress(JOBS.encode()))
    return str(nodes), str(jobs)


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["trace", *arguments])


def test_the_table_has_a_row_a_policy_and_what_was_published(files: tuple[str, str]) -> None:
    answer = simulate(*files, "--seeds", "2")
    assert answer.exception is None
    lines = answer.output.splitlines()
    assert lines[0] == "5 machines with 20 GPUs, 20 jobs; mean of 2 orders of arrival."
    assert lines[3].split()[:3] == ["POLICY", "90", "%"]
    names = ["Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD", "Tonnage"]
    assert [line.split()[0] for line in lines[4:]] == names
    assert "(95.39)" in lines[9]


def test_json_has_every_run(files: tuple[str, str]) -> None:
    answer = simulate(*files, "--policy", "fgd", "--seeds", "3", "--arrivals", "110", "-o", "json")
    told = json.loads(answer.output)
    assert told["seeds"] == [42, 43, 44]
    (policy,) = told["policies"]
    assert policy["policy"] == "FGD"
    assert policy["published"]["130"] == 95.39
    assert [list(run["allocatedPercent"]) for run in policy["runs"]] == [["90", "95", "100", "110"]] * 3
    assert all(run["arrivedJobs"] > 20 for run in policy["runs"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--policy", "FDG"], "FDG: there are Random, DotProd", id="an unknown policy"),
        pytest.param(["--seeds", "0"], "0 is not in the range", id="no order at all"),
        pytest.param(["--arrivals", "9999"], "9999 is not in the range", id="too many arrivals"),
    ],
)
def test_wrong_usage_is_refused(files: tuple[str, str], arguments: list[str], said: str) -> None:
    answer = simulate(*files, *arguments)
    assert answer.exit_code == 2
    assert said in answer.output


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(b"\x1f\x8b broken", "not readable", id="damaged gzip"),
        pytest.param(gzip.compress(JOBS.encode())[:-9], "not readable", id="cut off"),
        pytest.param(gzip.compress(b"\xff\xfe"), "the file is not UTF-8", id="no text"),
    ],
)
def test_a_damaged_file_is_named(files: tuple[str, str], content: bytes, what: str) -> None:
    Path(files[1]).write_bytes(content)
    answer = simulate(*files)
    assert what in str(answer.exception)
    assert files[1] in str(answer.exception)


@pytest.mark.skipif(not OPENB, reason="TONNAGE_OPENB names no folder with the trace openb")
def test_openb_comes_out_as_published_and_ours_is_not_below() -> None:
    files = (f"{OPENB}/openb_node_list_gpu_node.csv.gz", f"{OPENB}/openb_pod_list_default.csv.gz")
    answer = simulate(*files, "--policy", "FGD", "--policy", "Tonnage", "-o", "json")
    fgd, ours = (
        [run["allocatedPercent"]["130"] for run in p["runs"]] for p in json.loads(answer.output)["policies"]
    )
    assert sum(fgd) / len(fgd) == pytest.approx(95.39, abs=0.3)
    assert sum(ours) >= sum(fgd)
