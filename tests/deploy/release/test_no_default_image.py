"""Nobody publishes the image: no text names one that a stranger could publish."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.image.build import IMAGE, Wish, full_name
from scripts.render_chart import BASE
from support.helm import IMAGE as IMAGE_OF_RELEASES
from tonnage.twin.platform import AGENT_IMAGE

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = re.compile(r"(?<![\w.:/-])(?:docker\.io/)?tonnage/agent(?![\w./-])")
"""The image as a name for which each node asks the registry that it falls back to."""


def texts() -> Iterator[tuple[str, str]]:
    """Every file that git knows of or would take, but the changes of the past."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout
    for name in listed.rstrip("\0").split("\0"):
        path = ROOT / name
        if name not in ("CHANGELOG.md", "uv.lock") and path.is_file() and not path.is_symlink():
            yield name, path.read_bytes().decode(errors="replace")


@pytest.mark.parametrize(
    ("text", "public"),
    [
        pytest.param("image: tonnage/agent", True, id="a short name"),
        pytest.param("`docker.io/tonnage/agent:1`", True, id="the full name of it"),
        pytest.param("tonnage/agent@sha256:0", True, id="with a digest"),
        pytest.param("tonnage.invalid/agent:1", False, id="a host that cannot be"),
        pytest.param("src/tonnage/agent/main.py", False, id="a path"),
        pytest.param("/var/lib/tonnage/agent.lock", False, id="a file"),
        pytest.param("registry.example.com/tonnage/agent:1", False, id="a registry of one's own"),
    ],
)
def test_what_is_looked_for(text: str, public: bool) -> None:
    assert bool(PUBLIC.search(text)) == public


def test_no_file_names_an_image_that_a_stranger_could_publish() -> None:
    own = str(Path(__file__).relative_to(ROOT))
    assert [name for name, text in texts() if name != own and PUBLIC.search(text)] == []


def test_one_name_that_resolves_nowhere_stands_for_the_image() -> None:
    assert {IMAGE, IMAGE_OF_RELEASES} == {AGENT_IMAGE}
    assert AGENT_IMAGE.partition("/")[0].rpartition(".")[2] == "invalid", "RFC 2606"
    assert full_name(f"{IMAGE}:1") == f"{IMAGE}:1", "nothing is put before it"
    assert Wish(Path("a"), Path("b")).name == ""


def test_without_an_overlay_kustomize_names_no_image_that_can_be_pulled() -> None:
    (daemon_set,) = BASE.glob("daemonset-*.yaml")
    pod = yaml.load(daemon_set.read_text(), yaml.CSafeLoader)["spec"]["template"]["spec"]
    images = [one["image"] for one in (*pod.get("initContainers", ()), *pod["containers"])]
    assert images
    assert [one for one in images if not one.startswith(f"{IMAGE}:")] == []
