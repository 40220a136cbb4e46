"""What is said of logs and streams that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=-1", 422, "sinceSeconds: Invalid value: -1: must be greater than 0"),
        ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
        ("sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", 422, "[]: Forbidden: at most one of"),
        ("tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("sinceTime=x", 400, 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("sinceTime=20260102T030405Z", 400, 'cannot parse "0102T030405Z" as "-"'),
        ("sinceTime=2026-01-02T03:04:05", 400, 'cannot parse "" as "Z07:00"'),
        ("sinceTime=2026-13-02T03:04:05Z", 400, 'parsing time "2026-13-02T03:04:05Z": month out of range'),
        ("sinceTime=2026-01-02T03:04:05%2B25:00", 400, '+25:00": time zone offset hour out of range'),
        ("sinceTime=a%22b", 400, r'cannot parse "a\"b" as "2006"'),
        ("sinceTime=null&sinceSeconds=1", 422, "[]: Forbidden: at most one of"),
        ("sinceTime=2026-01-02T3:04:05,5Z", 204, ""),
        ("sinceTime=", 204, ""),
        ("container=x", 400, "container x is not valid for pod p"),
    ],
)
async def test_options_of_logs_are_checked(running: Any, query: str, code: int, words: str) -> None:
    await running.pod("p")
    answer = await running.http("GET", f"{PODS}/p/log?{query}")
    assert answer.code == code
    assert code == 204 or words in answer.json["message"]
    assert code != 422 or answer.json["message"].startswith('PodLogOptions "p" is invalid: ')


async def test_a_pod_without_a_node_has_no_log(running: Any) -> None:
    await running.pod("p")
    answer = await running.http("GET", f"{PODS}/p/log")
    assert (answer.code, answer.out, "content-type" in answer.headers) == (204, "", False)


async def test_a_stream_to_no_container_is_refused_before_its_pod_is_looked_for(running: Any) -> None:
    await running.pod("p")
    answer = await running.http("POST", f"{PODS}/p/exec?container=x", {})
    assert (answer.code, answer.json["message"]) == (400, "container x is not valid for pod p")


async def test_a_generated_name_that_was_given_is_told_to_be_taken(running: Any) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a", "generateName": "b-"}}
    assert (await running.http("POST", maps, body)).code == 201
    again = await running.http("POST", maps, body)
    assert (again.code, again.headers["retry-after"]) == (409, "1")
    assert again.json["message"].endswith("the server was not able to generate a unique name for the object")
