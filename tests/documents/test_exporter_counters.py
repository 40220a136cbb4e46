"""The CSV of counters: dcgm-exporter's own file, and files with faults of which the rest is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.exporter_recordings import FILE
from tonnage.documents.exporter_counters import MAX_BYTES, MAX_ROWS, counter_numbers, read_counters
from tonnage.model.node.telemetry import CounterType, ExportedCounter

RECORDED = json.loads(
    (Path(__file__).resolve().parents[1] / "data/dcgm-exporter-d5e5f51-counters.json").read_text("utf-8")
)
GOOD = "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C)."


def test_every_default_counter_of_dcgm_exporter_is_read() -> None:
    enabled = [row for row in RECORDED["counters"] if row[3]]
    text = "# Format\n\n" + "".join(
        f'{name}, {kind}, "{help_text}"\n' for name, kind, help_text, _ in enabled
    )
    file = read_counters(text.encode(), "default-counters.csv")
    assert file.problems == ()
    assert [(row.name, row.type, row.help) for row in file.counters] == [tuple(row[:3]) for row in enabled]


def test_numbers_are_those_of_dcgm() -> None:
    numbers = counter_numbers()
    recorded = json.loads(FILE.read_text(encoding="utf-8"))["fieldIds"]
    shared = numbers.keys() & recorded.keys()
    assert len(shared) > 50
    assert {name: numbers[name] for name in shared} == {name: recorded[name] for name in shared}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(
            "DCGM_FI_DEV_GPU_TMP, gauge, x",
            "use DCGM_FI_DEV_GPU_TEMP if you meant that",
            id="a misspelt name",
        ),
        pytest.param(
            "DCGM_EXP_GPU_HEALTH_STATUS, gauge, x", "tonnage_gpu_health", id="one that DCGM alone makes"
        ),
        pytest.param("nonsense, gauge, x", "does not know the field 'nonsense'", id="an unknown name"),
        pytest.param(
            "DCGM_FI_DEV_SM_CLOCK, gauges, x", "'gauges' is not a type of metric", id="a wrong type"
        ),
        pytest.param("DCGM_FI_DEV_SM_CLOCK, gauge", "three columns", id="too few columns"),
        pytest.param("DCGM_FI_DEV_SM_CLOCK, gauge, a, b", "three columns", id="a comma in the help"),
        pytest.param(GOOD, "listed twice", id="a duplicate"),
        pytest.param('DCGM_FI_DEV_SM_CLOCK, gauge, "open', "the line is not CSV", id="an open quote"),
        pytest.param(
            f"DCGM_FI_DEV_SM_CLOCK, gauge, {'x' * 1001}", "longer than 1000", id="a help without end"
        ),
    ],
)
def test_a_line_with_a_fault_is_named_and_the_rest_is_served(line: str, problem: str) -> None:
    file = read_counters(f"{GOOD}\n{line}\n".encode(), "counters.csv")
    assert file.counters == (
        ExportedCounter("DCGM_FI_DEV_GPU_TEMP", CounterType.GAUGE, "GPU temperature (in C).", 150),
    )
    assert [str(problem).partition(":2")[0] for problem in file.problems] == ["counters.csv"]
    assert problem in str(file.problems[0])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(
            b"\xff\xfe", "not UTF-8\n  why: byte 1 is 0xff\n  remedy: save it as UTF-8", id="UTF-16"
        ),
        pytest.param(b"#" * (MAX_BYTES + 1), "larger than 1 MiB", id="a file without end"),
    ],
)
def test_a_file_that_is_no_text_is_refused(content: bytes, problem: str) -> None:
    file = read_counters(content, "counters.csv")
    assert file.counters == ()
    assert problem in str(file.problems[0])


def test_what_stands_behind_a_fault_without_end_is_served_and_faults_are_cut() -> None:
    faults = "".join(f"nonsense_{number}, gauge, x\n" for number in range(10_000))
    file = read_counters(f"{faults}{GOOD}\n".encode(), "counters.csv")
    assert [counter.name for counter in file.counters] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert (len(file.problems), str(file.problems[-1])) == (21, "counters.csv: 9980 more lines are wrong")


def test_a_line_that_is_no_csv_does_not_take_the_next_along() -> None:
    file = read_counters(f'a, "b"c, d\n{GOOD}\n'.encode(), "counters.csv")
    assert len(file.counters) == len(file.problems) == 1


def test_lines_are_read_up_to_a_limit() -> None:
    file = read_counters(("#\n" * MAX_ROWS + f"{GOOD}\n").encode(), "counters.csv")
    assert file.counters == ()
    assert f"more than {MAX_ROWS} lines" in str(file.problems[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DCGM_EXP_GPU_HEALTH_STATUS", "tonnage_gpu_health"),
        ("DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", "NVML reads GPUs alone"),
        ("DCGM_FI_DEV_CPU_TEMP_CURRENT", "NVML reads GPUs alone"),
        ("DCGM_FI_DEV_CPU_AFFINITY_0", "tonnage topo"),
        ("DCGM_FI_DEV_CONNECTX_HEALTH", "network cards"),
        ("DCGM_FI_DEV_DIAG_PCIE_RESULT", "dcgmi diag"),
        ("DCGM_FI_DEV_VGPU_VM_ID", "vGPUs"),
        ("DCGM_FI_DEV_MIG_GI_INFO", "no number"),
        ("DCGM_FI_DEV_NVLINK_PPCNT_PLR_RCV_CODES", "DCGM_FI_DEV_NVLINK_COUNT_*"),
        ("DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_PER_LINK", "..._L0"),
        ("DCGM_FI_DEV_GPU_NVLINK_ERRORS", "count Xid 74"),
        ("DCGM_FI_IMEX_DOMAIN_STATUS", "leave the line out"),
        ("DCGM_FI_BIND_UNBIND_EVENT", "state of DCGM"),
    ],
)
def test_a_field_of_dcgm_that_is_not_served_is_refused_by_name_with_the_reason(name: str, words: str) -> None:
    (problem,) = read_counters(f"{name}, gauge, x\n".encode(), "counters.csv").problems
    assert f"Tonnage does not export {name}" in str(problem)
    assert words in str(problem)


def test_fields_that_dcgm_has_not_are_asked_for_by_names_of_our_own() -> None:
    file = read_counters(b"tonnage_gpu_pcie_bad_tlps_total, counter, Bad TLPs\n", "counters.csv")
    assert [counter.number for counter in file.counters] == [10_003]
