"""Genuine control planes for tests, whole or in part, and how to leave one as it was found."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tonnage.adapters.certificates import Authority
from tonnage.adapters.control_plane import ControlPlane, ControlPlaneFolder
from tonnage.cli.locations.binaries import chosen_minor, find_binaries
from tonnage.cli.locations.kubectl import nearest_kubectl
from tonnage.cli.up.genuine import write_credentials
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint
from tonnage.wire.kinds import CONFIG_MAP, NODE, POD, Kind

_SERVER: Final = ("etcd", "kube-apiserver")
"""The programs without which there is nothing to ask."""
_OF_THE_SERVER: Final = ("kube-apiserver", "extension-apiserver")


@dataclass(frozen=True, slots=True)
class GenuinePlane:
    """A control plane's programs, of which none runs at first, and what it takes to ask them."""

    programs: ControlPlane
    files: ControlPlaneFolder
    binaries: Path
    token: str
    """The administrator's."""
    kubeconfig: Path

    def ask(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """What the nearest kubectl says, however it ends."""
        command = [str(nearest_kubectl(chosen_minor(os.environ))), "--kubeconfig", str(self.kubeconfig)]
        return subprocess.run(
            [*command, *arguments], input=given, capture_output=True, text=True, check=False, timeout=300
        )


@contextmanager
def control_plane(folder: Path, *flags: str) -> Iterator[GenuinePlane]:
    """etcd and an API server with these flags besides; whatever runs of it ends afterwards."""
    plane = _prepared(folder)
    try:
        asyncio.run(plane.programs.serve(*flags))
        yield plane
    finally:
        asyncio.run(plane.programs.stop())


@asynccontextmanager
async def genuine_api_server(folder: Path, *flags: str) -> AsyncIterator[Path]:
    """etcd and kube-apiserver alone; the administrator's kubeconfig.

    Without the controller manager no namespace has a service account, so pods are let in without one.
    """
    plane = _prepared(folder)
    try:
        await plane.programs.serve("--disable-admission-plugins=ServiceAccount", *flags)
        yield plane.kubeconfig
    finally:
        await plane.programs.stop()


def _prepared(folder: Path) -> GenuinePlane:
    """Everything that the programs read is written."""
    binaries = find_binaries(os.environ, programs=_SERVER).folder
    files = ControlPlaneFolder(folder / "control-plane")
    authority = Authority.generate(datetime.now(UTC))
    programs = ControlPlane(binaries, files, os.environ)
    token = write_credentials(files, authority, programs.url)["admin"]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(Endpoint(programs.url, authority.certificate_pem, token)))
    return GenuinePlane(programs, files, binaries, token, kubeconfig)


async def emptied(api: KubernetesApi) -> None:
    """Delete what tests made: nobody else collects it, finalizers and grace periods included."""
    kinds: tuple[Kind[Any], ...] = (POD, CONFIG_MAP, NODE)
    for kind in kinds:
        for obj in (await api.list(kind)).items:
            name, namespace = obj.metadata.name, obj.metadata.namespace or None
            if name.startswith(_OF_THE_SERVER):
                continue
            if obj.metadata.finalizers:
                await api.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            if obj.metadata.deletion_timestamp is None or kind is POD:
                await api.delete(kind, name, namespace=namespace, grace_period_s=0)
