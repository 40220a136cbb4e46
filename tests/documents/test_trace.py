"""Traces: what is read, and that everything wrong is told at once with its line."""

from __future__ import annotations

import pytest

from tonnage.documents.trace import jobs_from, machines_from
from tonnage.model.errors import ConfigError
from tonnage.model.trace import TraceJob, TraceMachine

MACHINES = "sn,cpu_milli,memory_mib,gpu,model\nn1,96000,393216,8,V100M32\nn2,64000,262144,0,\n"
JOBS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,2048,1,460,V100M16|V100M32\nb,500,1,0,0,\n"
)


def test_machines_and_jobs_are_read() -> None:
    assert machines_from(MACHINES, "m.csv") == (
        TraceMachine("n1", 96000, 393216, 8, "V100M32"),
        TraceMachine("n2", 64000, 262144, 0, ""),
    )
    assert jobs_from(JOBS, "j.csv") == (
        TraceJob(1000, 2048, 1, 460, frozenset({"V100M16", "V100M32"})),
        TraceJob(500, 1, 0, 0),
    )
    without_models = JOBS.replace(",gpu_spec", "").replace(",V100M16|V100M32", "").replace("0,0,", "0,0")
    assert jobs_from(without_models, "j.csv")[0].models == frozenset()


def test_all_that_is_wrong_is_told_with_its_line() -> None:
    text = JOBS + "c,-1,0,1,1000,\nd,1,0,9,1000,\ne,1,0,2,500,\nf,1,0,1,0,\ng,1\nh,1,1e3,1,5,\n"
    with pytest.raises(ConfigError) as caught:
        jobs_from(text, "j.csv")
    told = [(problem.where, problem.what) for problem in caught.value.problems]
    assert [where for where, _ in told] == [f"j.csv:{line}" for line in range(4, 10)]
    assert "cpu_milli: '-1'" in told[0][1]
    assert "num_gpu: 9 is more than 8" in told[1][1]
    assert "only a single GPU can be shared" in told[2][1]
    assert "gpu_milli: 0 is not within 1 and 1000" in told[3][1]
    assert "memory_mib: '1e3'" in told[5][1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "no column sn", id="empty"),
        pytest.param("sn,gpu\n", "no column cpu_milli, memory_mib, model", id="columns missing"),
        pytest.param("sn,cpu_milli,memory_mib,gpu,model\n", "no rows", id="a header only"),
        pytest.param('sn,cpu_milli,memory_mib,gpu,model\n"n\n', "no CSV", id="a quote that never ends"),
        pytest.param("\0\0\0", "no column", id="binary"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        machines_from(text, "m.csv")
    assert words in caught.value.problems[0].what
