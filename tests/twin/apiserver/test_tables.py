"""What tables say of pods, nodes and custom kinds, held against upstream's rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.twin.apiserver.printers.by_kind import PRINTERS
from tonnage.twin.apiserver.printers.columns import duration
from tonnage.twin.apiserver.printers.jsonpath import JsonPath
from tonnage.twin.apiserver.printers.tables import custom_printer

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
POD, NODE = ("", "pods"), ("", "nodes")


def _state(**state: Any) -> dict[str, Any]:
    return {"name": "main", "ready": "running" in state, "restartCount": 0, "state": state}


def _pod(*statuses: Any, init: Any = (), phase: str = "Running", meta: Any = None, **status: Any) -> Any:
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z", **(meta or {})},
        "spec": {
            "containers": [{"name": f"c{index}"} for index in range(max(len(statuses), 1))],
            "initContainers": [{"name": one["name"]} for one in init],
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(statuses),
            "initContainerStatuses": init,
            **status,
        },
    }


RUNNING, DONE = _state(running={}), _state(terminated={"reason": "Completed", "exitCode": 0})
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        pytest.param(_pod(phase="Pending"), "0/1", "Pending", id="nothing is known yet"),
        pytest.param(_pod(RUNNING, RUNNING), "2/2", "Running", id="all run"),
        pytest.param(
            _pod(_state(waiting={"reason": "CrashLoopBackOff"}), RUNNING),
            "1/2",
            "CrashLoopBackOff",
            id="one waits",
        ),
        pytest.param(
            _pod(_state(terminated={"reason": "Error", "exitCode": 1}), phase="Failed"),
            "0/1",
            "Error",
            id="failed",
        ),
        pytest.param(
            _pod(_state(terminated={"exitCode": 3})), "0/1", "ExitCode:3", id="ended without a reason"
        ),
        pytest.param(_pod(_state(terminated={"exitCode": 137, "signal": 9})), "0/1", "Signal:9", id="killed"),
        pytest.param(
            _pod(DONE, RUNNING, conditions=READY), "1/2", "Running", id="one is done, the pod is ready"
        ),
        pytest.param(_pod(DONE, RUNNING), "1/2", "NotReady", id="one is done, the pod is not ready"),
        pytest.param(
            _pod(phase="Failed", reason="UnexpectedAdmissionError"),
            "0/1",
            "UnexpectedAdmissionError",
            id="the kubelet refused it",
        ),
        pytest.param(
            _pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "0/1",
            "SchedulingGated",
            id="a gate holds it",
        ),
        pytest.param(
            _pod(RUNNING, meta={"deletionTimestamp": "2026-01-01T00:59:00Z"}),
            "1/1",
            "Terminating",
            id="it is going",
        ),
        pytest.param(
            _pod(phase="Pending", init=[_state(running={})]), "0/1", "Init:0/1", id="an init container runs"
        ),
        pytest.param(
            _pod(phase="Pending", init=[_state(terminated={"exitCode": 2})]),
            "0/1",
            "Init:ExitCode:2",
            id="it failed",
        ),
    ],
)
def test_the_status_of_pods(pod: Any, ready: str, status: str) -> None:
    cells = PRINTERS[POD].cells(pod, NOW)
    assert cells[:3] == ["p", ready, status]
    assert cells[4] == "60m"


def test_restarts_say_when_the_last_one_was() -> None:
    status = {
        **RUNNING,
        "restartCount": 4,
        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}},
    }
    assert PRINTERS[POD].cells(_pod(status), NOW)[3] == "4 (5m ago)"


@pytest.mark.parametrize(
    ("conditions", "spec", "expected"),
    [
        ([{"type": "Ready", "status": "True"}], {}, "Ready"),
        ([{"type": "Ready", "status": "Unknown"}], {}, "NotReady"),
        ([], {}, "Unknown"),
        ([{"type": "Ready", "status": "True"}], {"unschedulable": True}, "Ready,SchedulingDisabled"),
    ],
)
def test_the_status_of_nodes(conditions: Any, spec: Any, expected: str) -> None:
    labels = {"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/control-plane": ""}
    node = {"metadata": {"name": "n", "labels": labels}, "spec": spec, "status": {"conditions": conditions}}
    assert PRINTERS[NODE].cells(node, NOW)[1:3] == [expected, "control-plane,gpu"]


@pytest.mark.parametrize(("key", "printer"), PRINTERS.items(), ids=lambda one: str(one)[:40])
def test_every_kind_fills_its_columns_even_from_nothing(key: Any, printer: Any) -> None:
    # An address of a service tells its age below a column that is not there, as the genuine server does.
    more = key == ("networking.k8s.io", "ipaddresses")
    assert len(printer.cells({"metadata": {"name": "x"}}, NOW)) == len(printer.columns) + more, key


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (605, "10m"),
        (3 * 3600, "3h"),
        (9 * 3600, "9h"),
        (3 * 86400 + 7200, "3d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (4000 * 86400, "10y"),
    ],
)
def test_durations_grow_coarser(seconds: int, text: str) -> None:
    assert duration(seconds) == text


OBJ: Any = {
    "a": {"b.c": 1, "list": [{"type": "X", "v": 1}, {"type": "Y", "v": 2}]},
    "metadata": {"labels": {"k/l": "m"}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.list[0].v", 1),
        (".a.list[-1].v", 2),
        ('.a.list[?(@.type=="Y")].v', 2),
        (".a.list[?(@.type!='Y')].v", 1),
        (".a.list[*].v", 1),
        (r".a.b\.c", 1),
        (".metadata.labels['k/l']", "m"),
        ('{.metadata.labels["k/l"]}', "m"),
        (".a.list[7].v", None),
        (".nothing.here", None),
        (".a.list[-1:].v", 2),
        (".a.list[0:5].v", None),
        (".a.list[1,0].v", 2),
        (".metadata['none','labels']", {"k/l": "m"}),
        ("..v", 1),
        (".a..type", "X"),
        (".a.list[?(@.v>1)].type", "Y"),
        (".a.list[?(@.v>'x')].type", None),
        (".a.list[?(@.none!=1)].type", None),
        (".a.list[?(@.type)].type", "X"),
        (".a[0]", None),
    ],
)
def test_printer_columns_find_their_values(path: str, found: Any) -> None:
    assert JsonPath.parse(path).first(OBJ) == found


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("string", 1234567.5, "1.2345675e+06"),
        ("string", {"b": 1, "a": True}, '{"a":true,"b":1}'),
        ("string", False, "false"),
        ("integer", 1.5, 1),
        ("integer", "1", None),
        ("number", 1.5, 1.5),
        ("boolean", 1, None),
        ("date", "2026-01-01T00:00:00Z", "31d"),
        ("date", "2026-01-01", "<invalid>"),
        ("date", "", "<unknown>"),
        ("date", 1, None),
    ],
)
def test_cells_of_definitions_are_of_the_type_of_their_column(kind: str, value: Any, cell: Any) -> None:
    printer = custom_printer([{"name": "x", "type": kind, "jsonPath": ".x"}])
    now = datetime(2026, 2, 1, tzinfo=UTC)
    assert printer.cells({"metadata": {"name": "a"}, "x": value}, now)[1] == cell


def test_a_path_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot read"):
        JsonPath.parse(".a[")


@pytest.mark.parametrize(
    ("key", "obj", "column", "shown"),
    [
        (("discovery.k8s.io", "endpointslices"), {"ports": [{"port": 80}, {"name": "a"}, {}]}, 2, "80,a,*"),
        (("storage.k8s.io", "csidrivers"), {"spec": {"tokenRequests": [{}]}}, 4, ""),
        (("storage.k8s.io", "csidrivers"), {"spec": {"tokenRequests": []}}, 4, "<unset>"),
    ],
)
def test_what_is_missing_in_a_list_is_shown_as_such(key: Any, obj: Any, column: int, shown: str) -> None:
    assert PRINTERS[key].cells({"metadata": {"name": "x"}, **obj}, NOW)[column] == shown


@pytest.mark.parametrize(
    ("resource", "name", "type_"),
    [
        (("apps", "deployments"), "Up-to-date", "string"),
        (("apps", "daemonsets"), "Up-to-date", "integer"),
        (("batch", "cronjobs"), "Suspend", "boolean"),
        (("policy", "poddisruptionbudgets"), "Allowed Disruptions", "integer"),
        (("storage.k8s.io", "csinodes"), "Drivers", "integer"),
        (("storage.k8s.io", "volumeattachments"), "Attached", "boolean"),
        (("admissionregistration.k8s.io", "mutatingwebhookconfigurations"), "Webhooks", "integer"),
    ],
)
def test_columns_have_a_genuine_servers_types(resource: tuple[str, str], name: str, type_: str) -> None:
    assert {one.name: one.type for one in PRINTERS[resource].columns}[name] == type_


async def test_columns_are_of_their_types(running: Any) -> None:
    wanted = {
        "/api/v1/limitranges": {"Created At": "date"},
        "/api/v1/serviceaccounts": {"Age": "string"},
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {"Created At": "date"},
        "/apis/storage.k8s.io/v1/csidrivers": {"AttachRequired": "boolean", "TokenRequests": "string"},
        "/apis/storage.k8s.io/v1/volumeattachments": {"Attacher": "string", "Attached": "boolean"},
    }
    for path, kinds in wanted.items():
        answer = await running.http("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        found = {column["name"]: column["type"] for column in answer.json["columnDefinitions"]}
        assert found | kinds == found
