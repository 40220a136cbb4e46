"""Scenes of Helm commands, played on a cluster with kubelets; answers and objects made comparable.

A line is a Helm command, `objects` for all that came of it, or METHOD PATH [BODY], a request by others.
"""

from __future__ import annotations

import asyncio
import difflib
import gzip
import itertools
import json
import re
import shutil
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from scripts.find_helm import Major
from support.first_hour import DATA, NAMESPACE, Answer, comparable
from support.helm import Helm
from tonnage.documents.scenario import Scenario, parse_scenario
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint
from tonnage.wire import kinds

CHARTS: Final = DATA / "helm"
OBJECTS: Final = "objects"
_SETTLES_S: Final = 90.0
_PAUSE_S: Final = 0.25
_ANSWER_S: Final = 60
_PATIENCE: Final = re.compile(r"(?<=--timeout )[23]0s")
"""What never runs out in a scene; more of it than the line says, for slow machines."""
_METHODS: Final = frozenset({"GET", "POST", "PATCH", "DELETE"})
_CORE: Final = ("configmaps", "pods", "secrets", "serviceaccounts", "services")
_GROUPS: Final = {
    "apps/v1": ("daemonsets", "deployments", "replicasets"),
    "batch/v1": ("jobs",),
    "autoscaling/v2": ("horizontalpodautoscalers",),
    "lab.example/v1": ("widgets",),
    "networking.k8s.io/v1": ("ingresses", "networkpolicies"),
    "policy/v1": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
    "scrape.example/v1": ("servicemonitors",),
}
_WIDE: Final = {
    "admissionregistration.k8s.io/v1": ("validatingwebhookconfigurations",),
    "apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "rbac.authorization.k8s.io/v1": ("clusterroles", "clusterrolebindings"),
    "scheduling.k8s.io/v1": ("priorityclasses",),
}
_NOT_OURS: Final = {
    "configmaps": re.compile(r"kube-root-ca\.crt$"),
    "serviceaccounts": re.compile(r"default$"),
    **dict.fromkeys(
        itertools.chain(*_WIDE.values()),
        re.compile(r"system[:-]|kubeadm:|tonnage|nodegpustatuses|(admin|edit|view|cluster-admin)$"),
    ),
}
"""Names that every cluster or namespace has."""
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.MULTILINE), text)
    for pattern, text in (
        (r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}", "TIME"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", "TIME"),
        (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", "TIME"),
        (r"(spec\.template: Invalid value: ).*?(: field is immutable)", r"\1TEMPLATE\2"),
        (r"modifiedAt=\d+", "modifiedAt=TIME"),
    )
)
_TABLE: Final = re.compile(r"^==> .+\n(?:.+\n)+\n", re.MULTILINE)
_TABLES: Final = re.compile(rf"(?:{_TABLE.pattern})+", re.MULTILINE)
"""Of a release's resources; Helm 4 shows the kinds in any order."""


class Engine(Protocol):
    """A cluster of either engine: the twin's, or a genuine control plane with the twin's kubelets."""

    @property
    def api(self) -> KubernetesApi:
        """The administrator's."""

    async def serve(self) -> Endpoint:
        """Let the API server answer."""

    async def populate(self, kubeconfig: Path) -> None:
        """Start everything else."""

    async def stop(self) -> None:
        """End all of it."""


@dataclass(frozen=True)
class HelmScene:
    """Commands in their order."""

    name: str
    commands: tuple[str, ...]


def one_node() -> Scenario:
    """What the scenes are played on."""
    return parse_scenario("name: helm\ngroups: [{name: cpu, nodes: 1}]\n", source="scenario.yaml")


def helm_scenes() -> Iterator[HelmScene]:
    """All of them."""
    for row in yaml.load((CHARTS / "scenes.yaml").read_text(), yaml.CSafeLoader):
        commands = tuple(line for line in row["commands"].splitlines() if line)
        yield HelmScene(row["scene"], commands)


def answers_file(major: Major) -> Path:
    """What a genuine Kubernetes answered to a Helm."""
    return CHARTS / f"helm-{major}-1.35.8-answers.json.gz"


def helm_answers(major: Major) -> dict[str, list[tuple[str, Answer]]]:
    """The genuine answers: (command, answer) by scene."""
    document = json.loads(gzip.decompress(answers_file(major).read_bytes()))
    return {
        scene: [(command, Answer(code, out, err)) for command, code, out, err in rows]
        for scene, rows in document.items()
    }


@asynccontextmanager
async def _stage(engine: Engine, folder: Path, major: Major) -> AsyncIterator[HelmPlayer]:
    """A running engine with the namespace, and a Helm beside it."""
    try:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(kubeconfig_text(await engine.serve(), namespace=NAMESPACE))
        await engine.populate(kubeconfig)
        await engine.api.create(
            kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        async with asyncio.timeout(_SETTLES_S):
            while True:
                if await _is_ready(engine.api):
                    break
                await asyncio.sleep(_PAUSE_S)
        yield HelmPlayer(Helm(major, folder, kubeconfig), kubeconfig)
    finally:
        await engine.stop()


async def _is_ready(api: KubernetesApi) -> bool:
    """Whether the node takes pods, and the namespace's pods have an account."""
    nodes = (await api.list(kinds.NODE)).items
    accounts = (await api.list(kinds.SERVICE_ACCOUNT, namespace=NAMESPACE)).items
    ready = [c for node in nodes for c in node.status.conditions if c.type == "Ready" and c.status == "True"]
    return bool(accounts and ready) and not any(node.spec.taints for node in nodes)


class HelmPlayer:
    """Asks a cluster what the lines of a scene say."""

    def __init__(self, helm: Helm, kubeconfig: Path) -> None:
        self._helm = helm
        config = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
        self._server = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]

    async def ask(self, command: str) -> Answer:
        """What a line is answered, well or badly, made comparable."""
        if command == OBJECTS:
            return Answer(0, await asyncio.to_thread(self._objects), "")
        first, *words = _PATIENCE.sub("180s", command).split()
        if first in _METHODS:
            path, _, body = command.removeprefix(first).strip().partition(" ")
            return await asyncio.to_thread(self._request, first, path, body)
        places = [str(CHARTS / word) if word.startswith("./") else word for word in words]
        done = await asyncio.to_thread(self._helm.attempt, *places, image="")
        return Answer(done.returncode, _said(done.stdout), _said(done.stderr))

    def _connected(self) -> closing[HTTPSConnection]:
        context = ssl._create_unverified_context()
        return closing(
            HTTPSConnection(self._server.removeprefix("https://"), context=context, timeout=_ANSWER_S)
        )

    def _send(self, server: HTTPSConnection, method: str, path: str, body: str = "") -> tuple[int, str]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "User-Agent": "others"}
        server.request(method, path, body.encode() or None, headers)
        answer = server.getresponse()
        return answer.status, answer.read().decode()

    def _request(self, method: str, path: str, body: str) -> Answer:
        with self._connected() as server:
            code, text = self._send(server, method, path, body)
        return Answer(code, _said(text, raw=True), "")

    def _objects(self) -> str:
        found: list[str] = []
        with self._connected() as server:
            for resource, path in _paths():
                known = _NOT_OURS.get(resource)
                code, text = self._send(server, "GET", path)
                for obj in json.loads(text)["items"] if code == 200 else ():
                    if known is None or not known.match(obj["metadata"]["name"]):
                        plain = json.dumps(_plain(obj, resource), indent=1, sort_keys=True)
                        found.append(f"{resource} {_said(plain)}")
        return "\n".join(sorted(found))


def _paths() -> Iterator[tuple[str, str]]:
    for resource in _CORE:
        yield resource, f"/api/v1/namespaces/{NAMESPACE}/{resource}"
    for group, resources in _GROUPS.items():
        for resource in resources:
            yield resource, f"/apis/{group}/namespaces/{NAMESPACE}/{resource}"
    for group, resources in _WIDE.items():
        for resource in resources:
            yield resource, f"/apis/{group}/{resource}"


def _plain(obj: Any, resource: str) -> Any:
    """An object without what clusters make up; of managers Helm alone, of pods and releases the outlines."""
    meta = obj["metadata"]
    meta["managedFields"] = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in meta.pop("managedFields", ())
        if entry["manager"] == "helm"
    ]
    if resource == "pods":
        return {"name": meta["name"], "labels": meta.get("labels"), "phase": obj["status"]["phase"]}
    if obj.get("type") == "helm.sh/release.v1":
        meta["labels"].pop("modifiedAt")
        obj["data"] = sorted(obj["data"])
    for key in ("apiVersion", "kind"):
        obj.pop(key, None)  # of a list's items a genuine server says them for custom kinds alone
    conditions = obj.get("status", {}).get("conditions")
    if conditions:
        conditions.sort(key=lambda one: one["type"])
    return obj


def _said(text: str, *, raw: bool = False) -> str:
    for pattern, word in _RULES:
        text = pattern.sub(word, text.replace(str(CHARTS), "CHARTS"))
    return _TABLES.sub(_sorted_tables, comparable(text, raw=raw))


def _sorted_tables(found: re.Match[str]) -> str:
    return "".join(sorted(_TABLE.findall(found[0])))


@asynccontextmanager
async def _own_stage(make: Callable[[Path], Engine], major: Major) -> AsyncIterator[HelmPlayer]:
    """As `_stage`, in a folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    try:
        async with _stage(make(folder), folder, major) as player:
            yield player
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def play(
    scene: HelmScene, major: Major, make: Callable[[Path], Engine], *, settle_s: float
) -> list[tuple[str, Answer]]:
    """Every line with its answer; controllers get a moment before their objects are looked at."""
    rows = []
    async with _own_stage(make, major) as player:
        for command in scene.commands:
            if command == OBJECTS:
                await asyncio.sleep(settle_s)
            rows.append((command, await player.ask(command)))
    return rows


async def differences(scene: HelmScene, major: Major, make: Callable[[Path], Engine]) -> str:
    """What a cluster answers otherwise than is recorded, line by line."""
    answers = helm_answers(major)[scene.name]
    assert tuple(command for command, _ in answers) == scene.commands, "record the answers anew"
    found: list[str] = []
    async with _own_stage(make, major) as player:
        for command, recorded in answers:
            answer = await player.ask(command)
            deadline = time.monotonic() + _SETTLES_S
            while command == OBJECTS and answer != recorded and time.monotonic() < deadline:
                await asyncio.sleep(_PAUSE_S)  # controllers take a moment
                answer = await player.ask(command)
            if answer != recorded:
                found.append(_shown(command, recorded, answer))
    return "\n".join(found)


def _shown(command: str, recorded: Answer, answer: Answer) -> str:
    lines = [f"$ {command}", f"exit status {recorded.code} and {answer.code}"]
    for before, after in ((recorded.out, answer.out), (recorded.err, answer.err)):
        lines += difflib.unified_diff(
            before.splitlines(), after.splitlines(), "recorded", "answered", lineterm="", n=2
        )
    return "\n".join(lines)
