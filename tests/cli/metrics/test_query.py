"""`tonnage metrics query`: a table of what a Prometheus answers, and what else may answer."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from support.deadlines import join
from tonnage.cli.main import run

VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [
            {"metric": {"pod": "a"}, "value": [1, "40"]},
            {"metric": {"pod": "b", "node": "n1"}, "value": [1, "0"]},
        ],
    },
}
DEVICE = dict.fromkeys(("UUID", "gpu", "node", "pod", "modelName", "instance", "job"), "x")


def answer(kind: str, result: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


class Pretended(http.server.HTTPServer):
    """Answers every query alike, and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body = 200, json.dumps(VECTOR).encode()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Pretended)
        self.server.asked += parse_qs(urlsplit(self.path).query).get("query", [])
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[Pretended]:
    with Pretended() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        join(thread)


def asked(prometheus: Pretended, *words: str) -> int:
    return run(["metrics", "query", "a{b='c'}", "--url", prometheus.url, *words], "tonnage")


def test_a_row_for_each_series(prometheus: Pretended, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(prometheus) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["POD", "NODE", "VALUE"], ["a", "-", "40"], ["b", "n1", "0"]]
    assert prometheus.asked == ["a{b='c'}"]


def test_as_json(prometheus: Pretended, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(prometheus, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["items"][0] == {"labels": {"pod": "a"}, "value": "40"}


@pytest.mark.parametrize(
    ("body", "head"),
    [
        pytest.param(
            answer("vector", [{"metric": DEVICE, "value": [1, "2"]}]),
            "NODE GPU POD VALUE",
            id="of many labels the telling ones",
        ),
        pytest.param(answer("scalar", [1, "5"]), "VALUE", id="a number"),
        pytest.param(
            answer("matrix", [{"metric": {"pod": "a"}, "values": [[1, "2"], [2, "3"]]}]),
            "POD VALUE",
            id="a range",
        ),
    ],
)
def test_other_answers(
    prometheus: Pretended, capsys: pytest.CaptureFixture[str], body: object, head: str
) -> None:
    prometheus.body = json.dumps(body).encode()
    assert asked(prometheus) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == head.split()


def test_no_series(prometheus: Pretended, capsys: pytest.CaptureFixture[str]) -> None:
    prometheus.body = json.dumps(answer("vector", [])).encode()
    assert asked(prometheus) == 1
    assert capsys.readouterr().err == "No series matches.\n"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        pytest.param(
            400,
            b'{"status": "error", "error": "parse error at char 3"}',
            "Prometheus refuses the query",
            id="a wrong expression",
        ),
        pytest.param(404, b"<html>", "the server there is not Prometheus", id="a page of somebody else"),
        pytest.param(200, b"[1]", "the server there is not Prometheus", id="JSON of somebody else"),
        pytest.param(200, b"[" * 5000, "the server there is not Prometheus", id="JSON without an end"),
        pytest.param(
            200,
            b'{"status": "success", "data": {"result": [1, {"metric": 3}]}}',
            "",
            id="series that are none",
        ),
    ],
)
def test_answers_of_others(
    prometheus: Pretended, capsys: pytest.CaptureFixture[str], status: int, body: bytes, expected: str
) -> None:
    prometheus.status, prometheus.body = status, body
    assert asked(prometheus) == (3 if expected else 0)
    assert expected in capsys.readouterr().err


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "query", "up", "--url", "http://127.0.0.1:1"], "tonnage") == 3
    said = capsys.readouterr().err
    assert "Prometheus does not answer" in said
    assert "why: Connection refused\n" in said
