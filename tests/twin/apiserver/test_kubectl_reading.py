"""Unmodified kubectl reads from the server: tables, formats, selectors, watches, pages, descriptions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tonnage.wire.kinds import EVENT, POD


@pytest.fixture(autouse=True)
async def fleet(running: Any) -> None:
    for index in range(3):
        await running.node(f"a100-{index}")
    await running.pod("train")
    await running.pod("serve", nodeName="a100-1")


async def test_nodes_show_status_roles_age_and_version(kubectl: Any) -> None:
    answer = await kubectl("get nodes")
    assert answer.out.splitlines()[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row[:3] + row[4:] for row in answer.rows] == [
        [f"a100-{index}", "Ready", "<none>", "v1.35.8"] for index in range(3)
    ]


async def test_wide_pods_name_their_node(kubectl: Any) -> None:
    answer = await kubectl("get pods -o wide")
    head = "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
    assert " ".join(answer.out.splitlines()[0].split()) == head
    assert [(row[0], row[1], row[2], row[6]) for row in answer.rows] == [
        ("serve", "0/1", "Pending", "a100-1"),
        ("train", "0/1", "Pending", "<none>"),
    ]


async def test_json_yaml_and_jsonpath_show_the_object(kubectl: Any) -> None:
    pod = (await kubectl("get pod train -o json")).json
    assert (pod["apiVersion"], pod["kind"], pod["status"]["phase"]) == ("v1", "Pod", "Pending")
    assert "kind: Pod" in (await kubectl("get pod train -o yaml")).out
    names = await kubectl(["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"])
    assert names.out == "serve train"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("-l app=train", ["train"], id="an equal label"),
        pytest.param("-l app!=train", ["serve"], id="another label"),
        pytest.param("-l app in (train,serve)", ["serve", "train"], id="one of several labels"),
        pytest.param("-l !app", [], id="no such label"),
        pytest.param("--field-selector spec.nodeName=a100-1", ["serve"], id="a field"),
        pytest.param("--field-selector metadata.name!=serve", ["train"], id="a name that differs"),
    ],
)
async def test_selectors_choose(kubectl: Any, selector: str, found: list[str]) -> None:
    flag, _, value = selector.partition(" ")
    answer = await kubectl(["get", "pods", flag, value, "-o", "name"])
    assert answer.out.split() == [f"pod/{name}" for name in found]


async def test_an_unknown_field_selector_is_refused_in_upstreams_words(kubectl: Any) -> None:
    answer = await kubectl.attempt("get pods --field-selector spec.image=x")
    assert answer.code == 1
    assert "field label not supported: spec.image" in answer.err


async def test_pages_make_up_the_whole_list(kubectl: Any) -> None:
    assert [row[0] for row in (await kubectl("get nodes --chunk-size=1")).rows] == [
        "a100-0",
        "a100-1",
        "a100-2",
    ]


async def test_a_watch_shows_what_is_there_and_what_comes(kubectl: Any, running: Any) -> None:
    process = await kubectl.start("get", "pods", "-w", "--no-headers")
    async with asyncio.timeout(60):
        first = [(await process.stdout.readline()).split()[0] for _ in range(2)]
        await running.pod("third")
        added = await process.stdout.readline()
        await running.api.delete(POD, "third", namespace="default")
        await process.stdout.readline()
    process.kill()
    await process.communicate()
    assert first == [b"serve", b"train"]
    assert added.split()[:3] == [b"third", b"0/1", b"Pending"]


async def test_describe_tells_of_nodes_pods_and_their_events(kubectl: Any, running: Any) -> None:
    pod = await running.api.get(POD, "train", "default")
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "train",
        "uid": pod.metadata.uid,
    }
    body = {
        "metadata": {"generateName": "train."},
        "involvedObject": involved,
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available",
        "type": "Warning",
        "count": 1,
    }
    await running.api.create(EVENT, body, namespace="default")
    described = (await kubectl("describe pod train")).out
    assert "FailedScheduling" in described
    assert "Status:           Pending" in described
    assert "Kubelet Version:            v1.35.8" in (await kubectl("describe node a100-1")).out
    assert "default                     serve" in (await kubectl("describe node a100-1")).out
    assert (await kubectl("events --for pod/train")).rows[0][1:4] == [
        "Warning",
        "FailedScheduling",
        "Pod/train",
    ]
    assert "0/3 nodes are available" in (await kubectl("get events")).out


async def test_wait_ends_when_the_field_has_its_value(kubectl: Any, running: Any) -> None:
    process = await kubectl.start(
        "wait", "--for=jsonpath={.status.phase}=Running", "pod/train", "--timeout=60s"
    )
    await running.api.patch(
        POD, "train", {"status": {"phase": "Running"}}, namespace="default", subresource="status"
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert (out, err) == (b"pod/train condition met\n", b"")


async def test_api_resources_versions_and_version_are_listed(kubectl: Any) -> None:
    listed = {tuple(row) for row in (await kubectl("api-resources --no-headers=false")).rows}
    assert ("nodes", "no", "v1", "false", "Node") in listed
    assert ("deployments", "deploy", "apps/v1", "true", "Deployment") in listed
    assert "apps/v1" in (await kubectl("api-versions")).out.split()
    assert (await kubectl("version -o json")).json["serverVersion"]["minor"] == "35"


async def test_explain_describes_fields_of_built_in_kinds(kubectl: Any) -> None:
    explained = (await kubectl("explain pod.spec.containers.resources.limits")).out
    assert "FIELD: limits <map[string]Quantity>" in explained
    assert "DESCRIPTION:\n" in explained
    assert "<empty>" not in explained.partition("DESCRIPTION:")[2]


async def test_what_is_not_there_is_said_in_upstreams_words(kubectl: Any) -> None:
    answer = await kubectl.attempt("get pod nobody")
    assert (answer.code, answer.err) == (1, 'Error from server (NotFound): pods "nobody" not found\n')
    assert (await kubectl.attempt("get nonsense")).err.startswith(
        "error: the server doesn't have a resource type"
    )
