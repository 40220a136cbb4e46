"""The genuine Prometheus and Alertmanager as processes, and what they answer."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.find_prometheus import monitoring_programs

PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 0.1
_ENDINGS: Final = {"counter": ("_total", "counter"), "info": ("_info", "gauge")}

Series = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs."""

    url: str

    def query(self, expr: str) -> list[Series]:
        """The vector that a query answers now: `metric` and `value` of each series."""
        return self._result("query", query=expr)

    def query_range(self, expr: str, start_s: float, end_s: float, step_s: int) -> list[Series]:
        """The series of a query over a time."""
        return self._result("query_range", query=expr, start=start_s, end=end_s, step=step_s)

    def values(self, expr: str, label: str) -> dict[str, float]:
        """Values of a query by a label."""
        return {series["metric"].get(label, ""): float(series["value"][1]) for series in self.query(expr)}

    def until(self, expr: str) -> list[Series]:
        """What a query answers once that is not empty; fails when it takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := self.query(expr)):
            assert time.monotonic() < deadline, f"no data: {expr}"
            time.sleep(_PAUSE_S)
        return answer

    def types(self) -> dict[str, str]:
        """The type of each metric by the name of its series, whichever format its page has.

        OpenMetrics declares counters without `_total`, and infos, which are gauges, without `_info`.
        """
        found: dict[str, list[dict[str, str]]] = self._get("metadata", {})
        types: dict[str, str] = {}
        for name, entries in found.items():
            declared = entries[0]["type"]
            of_ours = name.startswith("tonnage_")
            ending, kind = _ENDINGS.get(declared, ("", declared)) if of_ours else ("", declared)
            types[name.removesuffix(ending) + ending] = kind
        return types

    def alerts(self) -> list[Series]:
        """What fires or is about to."""
        found: list[Series] = self._get("alerts", {})["alerts"]
        return found

    def targets(self) -> list[Series]:
        """What it scrapes."""
        found: list[Series] = self._get("targets", {})["activeTargets"]
        return found

    def _result(self, path: str, **parameters: Any) -> list[Series]:
        found: list[Series] = self._get(path, parameters)["result"]
        return found

    def _get(self, path: str, parameters: Mapping[str, Any]) -> Any:
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()[:500]}") from None


@contextmanager
def running_prometheus(
    folder: Path,
    config: Mapping[str, Any],
    *,
    rules: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
) -> Iterator[Prometheus]:
    """Prometheus on a free port of 127.0.0.1, ready; its data lies in `folder`."""
    written = dict(config)
    if rules is not None:
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        written["rule_files"] = ["rules.yaml"]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(written))
    port = free_port()
    arguments = (
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *options,
    )
    url = f"http://127.0.0.1:{port}"
    with running(folder, "prometheus", arguments, f"{url}/-/ready"):
        yield Prometheus(url)


@contextmanager
def running_alertmanager(folder: Path, webhook: str) -> Iterator[str]:
    """Alertmanager that sends all it gets to a webhook at once; its address."""
    config = {
        "route": {"receiver": "hook", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s"},
        "receivers": [{"name": "hook", "webhook_configs": [{"url": webhook}]}],
    }
    (folder / "alertmanager.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    arguments = (
        f"--config.file={folder / 'alertmanager.yaml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    with running(folder, "alertmanager", arguments, f"http://127.0.0.1:{port}/-/ready"):
        yield f"127.0.0.1:{port}"


@contextmanager
def running(folder: Path, name: str, arguments: Sequence[str], ready: str) -> Iterator[None]:
    """One of the programs until the block ends; `ready` answers 200 once it can be used."""
    log, program = folder / f"{name}.log", monitoring_programs()[name]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *arguments],
            cwd=program.parent,  # where Alertmanager's templates are
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        until_answered(ready, process, log)
        yield
    finally:
        process.terminate()
        process.wait(20)


def until_answered(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the address answers 200; the test fails when the process ends or takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(_PAUSE_S)


def free_port() -> int:
    """A port of 127.0.0.1 where nobody listened a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def serving_tonnage(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A command of Tonnage that serves at a free port; the address. It ends in order when it is asked to."""
    address = f"127.0.0.1:{free_port()}"
    log = folder / f"{'-'.join(words[:2])}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tonnage", *words, "--address", address],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        until_answered(f"http://{address}/healthz", process, log)
        yield address
        process.terminate()
        assert process.wait(20) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(60)
