"""A genuine API server for tests, and how to leave it as it was found."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tonnage.adapters.control_plane import ControlPlane, ControlPlaneFolder
from tonnage.adapters.ports import KubernetesApi
from tonnage.cli.binaries import find_binaries
from tonnage.cli.genuine import write_credentials
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint
from tonnage.twin.pki import Authority
from tonnage.wire.kinds import CONFIG_MAP, NODE, POD, Kind

_OF_THE_SERVER: Final = ("kube-apiserver", "extension-apiserver")


@asynccontextmanager
async def genuine_api_server(folder: Path) -> AsyncIterator[Path]:
    """etcd and kube-apiserver alone; the administrator's kubeconfig.

    Without the controller manager no namespace has a service account, so pods are let in without one.
    """
    files = ControlPlaneFolder(folder)
    authority = Authority.generate(datetime.now(UTC))
    plane = ControlPlane(find_binaries(os.environ).folder, files, os.environ)
    try:
        tokens = write_credentials(files, authority, plane.url)
        await plane.serve("--disable-admission-plugins=ServiceAccount")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            kubeconfig_text(Endpoint(plane.url, authority.certificate_pem, tokens["admin"]))
        )
        yield kubeconfig
    finally:
        await plane.stop()


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
