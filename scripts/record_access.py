"""Record what a genuine API server answers about access and audits, and the roles it makes at birth.

    PYTHONPATH=src:tests:. python scripts/record_access.py

Writes `access-*` and `kubectl-access-*-answers.json.gz` in `tests/data` and the twin's default roles. Wants
the programs that `scripts/build_kubernetes.py` builds.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import httpx2

from support.access_requests import (
    ANSWERS,
    AUDIT,
    KUBECTL_ANSWERS,
    KUBECTLS,
    Asker,
    comparable,
    comparable_event,
    kubectl_scene,
    scenes,
)
from support.first_hour import Player
from support.genuine import GenuinePlane, control_plane
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.model.kubernetes.feature_gates import SIMULATED

ROLES: Final = Path(__file__).parents[1] / "src/tonnage/twin/apiserver/rbac/default_roles.json"
GATED: Final = ROLES.with_name("gated_roles.json")
_KINDS: Final = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}
_VERSION: Final = "rbac.authorization.k8s.io/v1"
_OWN: Final = ("uid", "creationTimestamp", "resourceVersion", "managedFields")
_FLAGS: Final = ("--enable-admission-plugins=NodeRestriction",)
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
    "omitStages": ["RequestReceived"],
}
_SETTLE_S: Final = 0.2
"""Rights count after a moment."""


class Genuine:
    """A client of the server."""

    def __init__(self, plane: GenuinePlane) -> None:
        self._base = plane.programs.url
        trusted = ssl.create_default_context(cafile=str(plane.files.certificate("ca")))
        self._http = httpx2.AsyncClient(verify=trusted, trust_env=False, timeout=30)

    async def send(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[int, bytes]:
        answer = await self._http.request(method, self._base + path, headers=headers, content=body)
        if method != "GET":
            await asyncio.sleep(_SETTLE_S)
        return answer.status_code, answer.content


async def record(plane: GenuinePlane) -> dict[str, list[list[Any]]]:
    """Every scene's requests with status and body."""
    asker = Asker(Genuine(plane).send, plane.token)
    return {
        scene.name: [[request, *await asker.ask(request)] for request in scene.requests] for scene in scenes()
    }


async def default_roles(plane: GenuinePlane) -> dict[str, list[dict[str, Any]]]:
    """The roles and bindings that are there from the start, without what each cluster has of its own."""
    genuine, result = Genuine(plane), {}
    headers = [("authorization", f"Bearer {plane.token}")]
    for plural, kind in _KINDS.items():
        _, body = await genuine.send("GET", f"/apis/{_VERSION}/{plural}", headers, b"")
        typed = {"apiVersion": _VERSION, "kind": kind}
        result[plural] = [{**typed, **_without_own(one)} for one in json.loads(body)["items"]]
    return result


def gated_roles(usual: dict[str, list[Any]]) -> dict[str, dict[str, list[Any]]]:
    """By feature gate, the roles and bindings that are not as `usual` with it on."""
    gated = {}
    for gate in SIMULATED:
        [roles] = _recorded(lambda plane: (default_roles(plane),), f"--feature-gates={gate}=true")
        others = {
            plural: [obj for obj in objects if obj not in usual[plural]] for plural, objects in roles.items()
        }
        gated[gate] = {plural: objects for plural, objects in others.items() if objects}
    return {gate: others for gate, others in gated.items() if others}


def _without_own(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OWN}
    return {**obj, "metadata": metadata}


async def audited(plane: GenuinePlane) -> list[Any]:
    """The audit events of what people asked so far, without how they were set up."""
    lines = (plane.files.path.parent / "audit.log").read_text().splitlines()
    events = [comparable(line.encode()) for line in lines]
    skipped = next(number for number, event in enumerate(events) if event["requestURI"] == "/api")
    return [comparable_event(event) for event in events[skipped:]]


async def record_kubectl(plane: GenuinePlane, minor: str) -> list[list[Any]]:
    """What that kubectl says: [command, exit status, stdout, stderr]."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    try:
        player = Player(kubectl_binary(minor), plane.kubeconfig, folder, kubectl_scene())
        rows = []
        for command in kubectl_scene().commands:
            answer = await player.ask(command)
            await asyncio.sleep(_SETTLE_S)
            rows.append([command, answer.code, answer.out, answer.err])
    finally:
        shutil.rmtree(folder)
    return rows


def main() -> None:
    """Record everything, each part on a control plane of its own."""
    roles, answers, events = _recorded(lambda plane: (default_roles(plane), record(plane), audited(plane)))
    said = {
        minor: _recorded(lambda plane, minor=minor: (record_kubectl(plane, minor),))[0]  # type: ignore[misc]
        for minor in KUBECTLS
    }
    _write_roles(ROLES, roles)
    _write_roles(GATED, gated_roles(roles))
    _write(ANSWERS, answers)
    _write(AUDIT, events)
    _write(KUBECTL_ANSWERS, said)


def _recorded(
    parts: Callable[[GenuinePlane], tuple[Coroutine[None, None, Any], ...]], *more: str
) -> list[Any]:
    """What the parts record on a fresh control plane, with `more` flags."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    try:
        policy, log = folder / "audit-policy.json", folder / "audit.log"
        policy.write_text(json.dumps(_POLICY))
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
        with control_plane(folder, *_FLAGS, *flags, *more) as plane:
            time.sleep(2)
            return [asyncio.run(part) for part in parts(plane)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_roles(path: Path, roles: object) -> None:
    path.write_text(json.dumps(roles, separators=(",", ":"), sort_keys=True) + "\n")


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main()
