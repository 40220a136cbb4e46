"""Scenes of kubectl commands and raw requests, run on any cluster, and answers made comparable.

A book is a file of scenes, what a genuine Kubernetes 1.35.8 said (`scripts/record_kubectl_answers.py`), and
where the twin says otherwise. A line that begins with an HTTP method is a request of its own; `become PHASE
SELECTOR [EXIT-CODE]` and `vanish SELECTOR` say of pods what a kubelet would.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import yaml

DATA: Final = Path(__file__).parents[1] / "data"
MANIFESTS: Final = DATA / "documents"
"""Every manifest of the documents, rebuilt from its keys as it was written, faults included."""
DEFINITIONS: Final = DATA / "documents-definitions.json.gz"
NAMESPACE: Final = "lab"
_PATIENCE_S: Final = 60.0
_TOKEN: Final = re.compile(r"(?:'[^']*'|[^\s'])+")
_ENVIRONMENT: Final = re.compile(r"[A-Z_]+=")
_READING: Final = frozenset(
    {"get", "describe", "events", "rollout", "diff", "logs", "explain", "wait", "GET", "top"}
)
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True)
class Book:
    """The files of scenes, of their genuine answers, and of the twin's exceptions."""

    scenes: Path
    answers: Path
    exceptions: Path


FIRST_HOUR: Final = Book(
    DATA / "kubectl-first-hour.yaml",
    DATA / "kubectl-1.35.8-answers.json.gz",
    DATA / "kubectl-exceptions.yaml",
)
WORKLOADS: Final = Book(
    DATA / "kubectl-workloads.yaml",
    DATA / "kubectl-workloads-1.35.8-answers.json.gz",
    DATA / "kubectl-workloads-exceptions.yaml",
)
APPLYING: Final = Book(
    DATA / "kubectl-apply.yaml",
    DATA / "kubectl-apply-1.35.8-answers.json.gz",
    DATA / "kubectl-apply-exceptions.yaml",
)
KINDS: Final = Book(
    DATA / "kubectl-kinds.yaml",
    DATA / "kubectl-kinds-1.35.8-answers.json.gz",
    DATA / "kubectl-kinds-exceptions.yaml",
)
RULES: Final = Book(
    DATA / "kubectl-rules.yaml",
    DATA / "kubectl-rules-1.35.8-answers.json.gz",
    DATA / "kubectl-rules-exceptions.yaml",
)
DOCUMENTS: Final = Book(
    DATA / "kubectl-documents.yaml",
    DATA / "kubectl-documents-1.35.8-answers.json.gz",
    DATA / "kubectl-documents-exceptions.yaml",
)
BOOKS: Final = (FIRST_HOUR, WORKLOADS, APPLYING, KINDS, RULES, DOCUMENTS)


@dataclass(frozen=True)
class Answer:
    """What kubectl said, comparable."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Scene:
    """Commands in their order, and the files that they name."""

    name: str
    commands: tuple[str, ...]
    settle_s: float = 0.8
    """How long genuine controllers get after a write; some gather what they see for a second."""
    files: dict[str, str] = field(default_factory=dict)
    long: bool = False
    """Whether it is told in `make test-long` only, because cheaper tests stand for it."""


def scenes(book: Book = FIRST_HOUR) -> Iterator[Scene]:
    """All scenes of a book."""
    for row in yaml.load(book.scenes.read_text(), yaml.CSafeLoader):
        commands = tuple(line for line in row["commands"].splitlines() if line)
        files = {**_document_files(row.get("documents")), **(row.get("files") or {})}
        yield Scene(row["scene"], commands, row.get("settle_s", 0.8), files, row.get("long", False))


def _document_files(beginning: str | None) -> dict[str, str]:
    """The documents' manifests whose names begin so, and the definitions of the kinds that others define."""
    if beginning is None:
        return {}
    files = {path.name: path.read_text() for path in sorted(MANIFESTS.glob(f"{beginning}*.yaml"))}
    return {**files, "definitions.json": gzip.decompress(DEFINITIONS.read_bytes()).decode()}


def recorded(book: Book = FIRST_HOUR) -> dict[str, list[tuple[str, Answer]]]:
    """The genuine answers: (command, answer) by scene."""
    document = json.loads(gzip.decompress(book.answers.read_bytes()))
    return {
        scene: [(command, Answer(code, out, err)) for command, code, out, err in rows]
        for scene, rows in document["scenes"].items()
    }


def reads(command: str) -> bool:
    """Whether a command only looks, so that it may be asked again."""
    words = [word for word in command.split() if not _ENVIRONMENT.match(word)]
    if words[0] == "rollout":
        return words[1] in ("status", "history")
    return words[0] in _READING


class Player:
    """Runs commands of one scene in a folder of its own."""

    def __init__(self, kubectl: Path, kubeconfig: Path, folder: Path, scene: Scene) -> None:
        self._kubectl = kubectl
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "PATH": os.defpath,  # no plugins are there
            "TZ": "UTC",
            "GOGC": "off",  # short lives need no garbage collector
        }
        (folder / "tmp").mkdir()
        for name, text in scene.files.items():
            (folder / name).write_text(text)

    async def ask(self, command: str) -> Answer:
        """What a command answers, well or badly, made comparable."""
        words = [word.replace("'", "") for word in _TOKEN.findall(command)]
        environment = dict(self._environment)
        while _ENVIRONMENT.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        stdin = b""
        if "<" in words:
            stdin = (self._folder / words[words.index("<") + 1]).read_bytes()
            words = words[: words.index("<")]
        if words[0] in _METHODS:
            return await asyncio.to_thread(self._request, words[0], words[1], stdin)
        if words[0] in ("become", "vanish"):
            return await asyncio.to_thread(self._pretend, *words)
        process = await asyncio.create_subprocess_exec(
            self._kubectl,
            *words,
            env=environment,
            cwd=self._folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_PATIENCE_S):
                out, err = await process.communicate(stdin)
        except TimeoutError:
            process.kill()
            await process.wait()
            return Answer(-1, "", "no answer")
        assert process.returncode is not None
        said, wrong = (text.decode().replace(self._environment["TMPDIR"], "/tmp") for text in (out, err))
        return Answer(process.returncode, comparable(said, raw="--raw" in words), comparable(wrong))

    def _pretend(self, what: str, *words: str) -> Answer:
        """Tell the state of pods as a kubelet does; the answer counts them."""
        phase, selector, *code = words if what == "become" else ("", *words)
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        found = json.loads(self._send("GET", f"{pods}?labelSelector={quote(selector)}", b"")[1])["items"]
        told = 0
        for pod in found:
            path = f"{pods}/{pod['metadata']['name']}"
            ends = "deletionTimestamp" in pod["metadata"]
            if what == "vanish" and ends:
                self._send("DELETE", path, b"{gracePeriodSeconds: 0}")
            elif phase and not ends and pod["status"]["phase"] not in (phase, "Succeeded", "Failed"):
                status = kubelet_status(pod, phase, int(code[0]) if code else 0)
                self._send("PATCH", f"{path}/status", json.dumps({"status": status}).encode())
            else:
                continue
            told += 1
        return Answer(0, str(told), "")

    def _request(self, method: str, path: str, body: bytes) -> Answer:
        """A request without kubectl: status, body and warnings."""
        code, text, warnings = self._send(method, path, body)
        return Answer(code, comparable(text, raw=True), comparable("\n".join(warnings)))

    def _send(self, method: str, path: str, body: bytes) -> tuple[int, str, list[str]]:
        config = yaml.load(self._kubeconfig.read_text(), yaml.CSafeLoader)
        context = ssl._create_unverified_context()
        kind = _PATCH if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}", "Content-Type": kind}
        data = json.dumps(yaml.load(body, yaml.CSafeLoader)).encode() if body else None
        server = config["clusters"][0]["cluster"]["server"]
        request = Request(f"{server}{path}", data, headers, method=method)
        try:
            with urlopen(request, context=context, timeout=_PATIENCE_S) as got:
                return got.status, got.read().decode(), got.headers.get_all("Warning") or []
        except HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers.get_all("Warning") or []

    async def ask_until(self, command: str, good: Callable[[Answer], bool], tries: int) -> Answer:
        """As `ask`; what only looks is asked again until its answer is good: controllers take a moment."""
        answer = await self.ask(command)
        for _ in range(tries if reads(command) else 0):
            if good(answer):
                break
            await asyncio.sleep(0.1)
            answer = await self.ask(command)
        return answer


def kubelet_status(pod: Any, phase: str, code: int) -> dict[str, Any]:
    """What a kubelet says of a pod whose containers run, or have ended with an exit code."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    runs = phase == "Running"
    ended = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": now,
        "finishedAt": now,
    }
    states = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": runs,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}} if runs else {"terminated": ended},
        }
        for container in pod["spec"]["containers"]
    ]
    ready = {"type": "Ready", "status": "True" if runs else "False", "lastTransitionTime": now}
    others = [one for one in pod["status"].get("conditions", []) if one["type"] != "Ready"]
    return {"phase": phase, "startTime": now, "conditions": [*others, ready], "containerStatuses": states}


_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.MULTILINE), text)
    for pattern, text in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| \+0000( UTC)?)", "TIME"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
        (r"^[EWI]\d{4} [\d:.]+\s+\d+ reflector.*\n", ""),  # the client's, about a watch cut short
        (r"^[EWI]\d{4} [\d:.]+\s+\d+ ", "LOG "),
        (r"(targetPort: |TargetPort: +|127\.0\.0\.1:)\d{4,5}", r"\1PORT"),
        (r"https://127\.0\.0\.1:PORT", "SERVER"),
        (r"(resourceVersion\"?: \"?|Resource Version: +)\d+", r"\1RV"),
        (r"(pod-template-hash|controller-revision-hash)(\"?[=:] ?\"?)\w+", r"\1\2HASH"),
        (rf"-(?:[{_LETTERS}]{{6,10}}|HASH)(?:-[{_LETTERS}]{{5}})?(?![\w.-]*\.ya?ml)\b", "-HASH"),
        (rf"-[{_LETTERS}]{{5}}\b", "-HASH"),
        (r"\.[0-9a-f]{16}\b", ".NUMBER"),
        (r"\b10\.(?:96|0)\.\d+\.\d+\b", "ADDRESS"),
        (r"\b3[0-2]\d{3}(/TCP|$)", r"PORT\1"),
        (r"(odePort\"?: )3[0-2]\d{3}\b", r"\1PORT"),
        (r" \(x\d+ over \w+\)", ""),
        (r"(patch: Invalid value: )\".*\"(?=: )", r"\1PATCHED"),
        (r"(LIVE|MERGED)-\d+", r"\1"),
        (r"kubectl-edit-[\w-]+\.yaml", "EDITED"),
        (r"/tmp/[\w.-]+", "/tmp/FOLDER"),
        (r"(?<![\w.=/-])(?:\d+(?:\.\d+)?(?:ms|[smhd]))+(?![\w-])", "AGE"),
        (r"<(?:invalid|unknown)>", "AGE"),
        (r"(?<=\S)  +", "  "),
        (r"[ \t]+$", ""),
        (r"-{3,}", "---"),
    )
)


def comparable(text: str, *, raw: bool = False) -> str:
    """An answer without what differs from cluster to cluster: uids, times, versions, random names, widths."""
    if raw:
        text = _raw(text)
    for pattern, word in _RULES:
        text = pattern.sub(word, text)
    return "\n".join(_steady(text.split("\n")))


def _steady(lines: list[str]) -> Iterator[str]:
    """Lines without repetitions (an Event told twice); the causes of one refusal in an order of their own."""
    for starred, group in itertools.groupby(lines, lambda line: line.startswith("* ")):
        found = list(group)
        before = ""
        for line in sorted(found) if starred else found:
            if not line or line != before:
                yield line
            before = line


def _raw(text: str) -> str:
    try:
        document: Any = json.loads(text)
    except ValueError:
        return text
    if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
        document["metadata"].pop("managedFields", None)
    return json.dumps(document, indent=1, sort_keys=True)
