"""The how-tos about claims, command by command on a genuine node, as a reader with a cluster follows them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from support.genuine_claims import WHOLE, ClaimNode
from support.genuine_node import NODE_NAME, until
from support.helm import NAMESPACE
from support.images import busybox_archive
from support.installed_agent import CONFIG_MAP, GPU
from support.page_examples import Example, examples_of, missing_lines
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

ROOT: Final = Path(__file__).resolve().parents[3]
IMAGE: Final = "docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04"
OURS: Final[Mapping[str, str]] = {
    "the same 8 devices match, on a100-0, a100-1": "the same 4 devices match, on a100-0",
    "a100-0": NODE_NAME,
}
"""What a page says of the fleet that the embedded cluster has, and what is so here."""
LABELS: Final = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
"""As node feature discovery sets them, which does not run here."""
OF_THE_TWIN: Final = ("export PATH=", 'eval "$(tonnage up')
LIMIT_S: Final = 300.0


@pytest.fixture(scope="module")
def counting(claims: ClaimNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A node that offers nvidia.com/gpu, the image of the pages; the environment of a reader's shell."""
    folder = tmp_path_factory.mktemp("reader")
    busybox_archive(folder, name=IMAGE)
    claims.cluster.node.import_image(folder / "busybox.tar")
    (folder / "kubectl").symlink_to(nearest_kubectl(chosen_minor(os.environ)))
    (folder / "tonnage").write_text(f'#!/bin/sh\nexec {sys.executable} -m tonnage "$@"\n')
    (folder / "tonnage").chmod(0o755)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(claims.cluster.kubeconfig.read_bytes())
    claims.agent.configure()
    until(lambda: claims.cluster.allocatable(GPU) == 4)
    claims.cluster.kubectl("label", "node", NODE_NAME, *(f"{key}={value}" for key, value in LABELS.items()))
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "TONNAGE"))}
    yield {**clean, "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}
    claims.cluster.kubectl("label", "node", NODE_NAME, *(f"{key}-" for key in LABELS))
    claims.clear()
    claims.offer(*WHOLE)


def examples(page: str) -> list[Example]:
    """Of a how-to, without what starts the embedded cluster."""
    text = (ROOT / "docs/how-to" / page).read_text()
    for said, ours in OURS.items():
        text = text.replace(said, ours)
    return [each for each in examples_of(text) if not each.command.startswith(OF_THE_TWIN)]


@pytest.mark.parametrize("page", ["move-to-claims.md", "claim-a-gpu.md"])
def test_a_reader_follows_the_page(counting: Mapping[str, str], claims: ClaimNode, page: str) -> None:
    for example in examples(page):
        ended = subprocess.run(
            ["bash", "-c", example.command],
            cwd=ROOT,
            env=counting,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert ended.returncode == 0, f"$ {example.command}\n{ended.stdout}"
        assert missing_lines(example, ended.stdout) == [], f"$ {example.command}\n{ended.stdout}"
    claims.cluster.kubectl("delete", "configmap", CONFIG_MAP, "-n", NAMESPACE)
    claims.agent.configure()
    until(lambda: claims.cluster.allocatable(GPU) == 4)
