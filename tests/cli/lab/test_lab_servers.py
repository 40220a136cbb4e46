"""Servers that a lab asks for: started with Tonnage's arguments alone, ready, and ended with the lab."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import urllib.request
from pathlib import Path

import pytest

from tonnage.cli.lab.servers import PAGES, lab_servers
from tonnage.documents.lab.steps import parse_lab
from tonnage.model.errors import ConfigError, HardwareError

PRETENDED = textwrap.dedent(
    f"""\
    #!{sys.executable}
    import http.server, json, os, pathlib, sys
    here = pathlib.Path(__file__).parent
    (here / "started").write_text(json.dumps([sys.argv[1:], dict(os.environ), os.getpid()]))
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:])
    (here / "config").write_text(pathlib.Path(options["config.file"]).read_text())
    if (here / "broken").exists():
        sys.exit("no room")
    asked = []
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(503 if len(asked) < 3 else 200)
            self.end_headers()
        def log_message(self, *words):
            pass
    host, port = options["web.listen-address"].split(":")
    http.server.HTTPServer((host, int(port)), Handler).serve_forever()
    """
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program = tmp_path / "prometheus"
    program.write_text(PRETENDED)
    program.chmod(0o755)
    return tmp_path


async def test_a_server_is_ready_on_this_machine_alone_and_ends_with_the_lab(folder: Path) -> None:
    environment = {"PATH": str(folder), "HOME": str(folder), "SECRET": "x", "PROMETHEUS": "y"}
    async with lab_servers(["prometheus"], environment) as given:
        address = given["PROMETHEUS_URL"]
        assert address.startswith("http://127.0.0.1:")
        words, variables, pid = json.loads((folder / "started").read_text())
        options = dict(word[2:].split("=", 1) for word in words)
        assert options["web.listen-address"] == address.removeprefix("http://")
        assert Path(options["storage.tsdb.path"]).parent.is_dir()
        assert not {"SECRET", "PROMETHEUS"} & variables.keys()
        config = (folder / "config").read_text()
        assert (config.count("targets"), PAGES in config) == (1, True)
        with urllib.request.urlopen(f"{address}/-/ready") as answer:  # noqa: ASYNC210 - a pretended server's
            assert answer.status == 200
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not Path(options["storage.tsdb.path"]).parent.exists()


async def test_a_program_in_the_cache_is_taken(folder: Path) -> None:
    cache = folder / "cache" / "tonnage"
    cache.mkdir(parents=True)
    (folder / "prometheus").rename(cache / "prometheus")
    environment = {"PATH": "/nowhere", "XDG_CACHE_HOME": str(folder / "cache")}
    async with lab_servers(["prometheus"], environment) as given:
        assert given.keys() == {"PROMETHEUS_URL"}


async def test_a_server_that_ends_by_itself_is_told_with_its_last_words(folder: Path) -> None:
    (folder / "broken").touch()
    with pytest.raises(HardwareError, match=r"exit status 1\n.*no room"):
        async with lab_servers(["prometheus"], {"PATH": str(folder), "HOME": str(folder)}):
            pass


async def test_a_server_that_is_not_here_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="prometheus is not installed") as caught:
        async with lab_servers(["prometheus"], {"PATH": str(tmp_path), "HOME": str(tmp_path)}):
            pass
    assert str(tmp_path / ".cache/tonnage/prometheus") in caught.value.problems[0].remedy


@pytest.mark.parametrize(
    "servers",
    ["[/bin/sh]", "[promethus]", "[prometheus, prometheus]", "prometheus", "[{prometheus: {a: b}}]"],
)
def test_what_is_not_in_the_table_is_refused(servers: str) -> None:
    text = f"name: x\ntitle: X\nscenario: inference\nservers: {servers}\nsteps: [{{run: kubectl get pods}}]\n"
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, source="lab.yaml", files=set())
    assert "lab.yaml:4:" in caught.value.problems[0].where


def test_the_address_is_a_variable_from_the_first_step() -> None:
    text = "name: x\ntitle: X\nscenario: inference\n{}steps: [{{run: kubectl get pods $PROMETHEUS_URL}}]\n"
    parse_lab(text.format("servers: [prometheus]\n"), source="lab.yaml", files=set())
    with pytest.raises(ConfigError, match="no earlier step assigns PROMETHEUS_URL"):
        parse_lab(text.format(""), source="lab.yaml", files=set())
