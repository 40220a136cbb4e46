"""The genuine Prometheus over a folder of blocks, and promtool."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.find_prometheus import monitoring_programs

_ADDRESS: Final = "127.0.0.1:19090"
_READY_S: Final = 60


@dataclass(frozen=True, slots=True)
class Server:
    """One that runs."""

    url: str
    pid: int

    def query_range(self, expr: str, start_s: int, end_s: int, step_s: int) -> list[Any]:
        """The series that a query answers for a range."""
        asked = urllib.parse.urlencode({"query": expr, "start": start_s, "end": end_s, "step": step_s})
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{asked}", timeout=120) as answer:
            return list(json.load(answer)["data"]["result"])

    def memory_mib(self) -> float:
        """What it has resident."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(match[1]) / 1024 if match else 0.0

    def head_series(self) -> float:
        """Series that it holds in memory."""
        with urllib.request.urlopen(f"{self.url}/api/v1/status/tsdb", timeout=30) as answer:
            return float(json.load(answer)["data"]["headStats"]["numSeries"])


def promtool(*arguments: str) -> None:
    """Run it; what it has to say against them is printed."""
    subprocess.run([monitoring_programs()["promtool"], *arguments], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def serving(folder: Path, pages: Sequence[str] = ()) -> Iterator[Server]:
    """Prometheus over `folder`/data, which scrapes the pages every five seconds."""
    targets = [page.split("/", 1) for page in pages]
    found = [{"targets": [host], "labels": {"__metrics_path__": f"/{path}"}} for host, path in targets]
    job = {"job_name": "pages", "scrape_interval": "5s", "honor_labels": True, "static_configs": found}
    (folder / "prometheus.yaml").write_text(json.dumps({"scrape_configs": [job]}))
    arguments = (
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={_ADDRESS}",
    )
    with (folder / "prometheus.log").open("ab") as log:
        process = subprocess.Popen([monitoring_programs()["prometheus"], *arguments], stdout=log, stderr=log)
    try:
        _until_ready(process)
        yield Server(f"http://{_ADDRESS}", process.pid)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def page_server(pages: Mapping[str, str]) -> Iterator[str]:
    """Serves texts by path; the address."""
    bodies = {path: text.encode() for path, text in pages.items()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bodies[self.path])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _until_ready(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("Prometheus did not start: its port may be in use")
        try:
            with urllib.request.urlopen(f"http://{_ADDRESS}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
