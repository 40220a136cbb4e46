"""Dashboards: how they are laid out, and whether Grafana's own types take them."""

from __future__ import annotations

import os
import shutil
from copy import deepcopy
from itertools import combinations
from typing import Any

import pytest

from scripts.check_dashboards import complaints
from tonnage.diagnose.monitoring.dashboards import dashboard_json
from tonnage.model.catalog.alerts import rule_table
from tonnage.model.catalog.dashboards import Dashboard, dashboards

BOARDS = dashboards()
QUERIES = [query.expr for board in BOARDS for panel in board.panels for query in panel.queries]


def written(board: Dashboard) -> Any:
    return dashboard_json(board)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_panels_do_not_overlap_and_stay_within_the_page(board: Dashboard) -> None:
    places = [panel["gridPos"] for panel in written(board)["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_dashboard_has_the_variables_that_its_queries_name(board: Dashboard) -> None:
    text = " ".join(query.expr for panel in board.panels for query in panel.queries)
    named = {name for name in ("node", "gpu", "namespace") if f"${name}" in text}
    assert named == {variable.name for variable in board.variables}


@pytest.mark.parametrize(
    ("case", "series"),
    [
        pytest.param(f"TEL-4: {name}", series, id=f"TEL-4: {name}")
        for name, series in {
            "utilisation": "avg(node:gpu_utilization:avg)",
            "memory": "node:gpu_memory_used_mib:sum",
            "temperature": "node:gpu_temperature_celsius:max",
            "a line for each GPU": "node_gpu:utilization_percent:max",
            "Xid in 24 h": "DCGM_FI_DEV_XID_ERRORS[1d]",
            "power": "sum(node:gpu_power_watts:sum)",
        }.items()
    ],
)
def test_the_panels_of_the_documents_are_there(case: str, series: str) -> None:
    assert any(series in expr for expr in QUERIES), case


def test_tel_8_modes_are_never_added_up() -> None:
    fleet = next(board for board in BOARDS if board.name == "fleet")
    amounts = [
        query.expr
        for panel in fleet.panels
        for query in panel.queries
        if "requested" in query.expr or ("allocatable" in query.expr and "capacity" not in query.expr)
    ]
    assert len(amounts) == 2
    assert all("sum by (mode, resource)" in expr for expr in amounts)


@pytest.mark.parametrize(
    ("case", "series"),
    [
        pytest.param(f"TEL-8: {name}", series, id=f"TEL-8: {name}")
        for name, series in {
            "PCIe throughput sent": "DCGM_FI_PROF_PCIE_TX_BYTES",
            "PCIe throughput received": "DCGM_FI_PROF_PCIE_RX_BYTES",
            "tensor pipe": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            "ECC": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "memory by the processes of pods": "(namespace, pod, attribution) (tonnage_pod_gpu_memory_bytes",
            "compute by the processes of pods": "tonnage_pod_gpu_compute_seconds_total",
        }.items()
    ],
)
def test_counters_beyond_the_documents_table_have_panels(case: str, series: str) -> None:
    """Each of these queries has data in tests/contract/metrics/test_prometheus_on_the_twin.py."""
    assert any(series in expr for expr in QUERIES), case


def test_every_recording_rule_is_read_by_a_dashboard() -> None:
    unread = [rule.name for rule in rule_table().recordings if not any(rule.name in expr for expr in QUERIES)]
    assert unread == []


def bad_option(board: Any) -> None:
    board["panels"][0]["options"]["colourMode"] = "value"


def bad_place(board: Any) -> None:
    board["panels"][0]["gridPos"]["width"] = 4


def bad_word(board: Any) -> None:
    board["panels"][0]["options"]["colorMode"] = "rainbow"


@pytest.mark.long
def test_grafanas_types_take_every_dashboard() -> None:
    """In one run of the compiler, beside three that it must refuse."""
    if shutil.which("npm") is None and not os.environ.get("CI"):
        pytest.skip("npm is not installed")
    good = [written(board) for board in BOARDS]
    assert complaints(good) == ""
    wrong = [deepcopy(good[0]) for _ in range(3)]
    for board, spoil in zip(wrong, (bad_option, bad_place, bad_word), strict=True):
        spoil(board)
    messages = complaints(wrong)
    assert [word in messages for word in ("colourMode", "width", "rainbow")] == [True, True, True], messages
