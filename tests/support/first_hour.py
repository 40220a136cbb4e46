"""A first hour with kubectl: scenes of commands, run on any cluster, and answers made comparable.

`tests/data/kubectl-first-hour.yaml` holds the scenes; `kubectl-1.35.8-answers.json.gz` what a genuine
Kubernetes 1.35.8 said (`scripts/record_kubectl_answers.py`).
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

DATA: Final = Path(__file__).parents[1] / "data"
SCENES: Final = DATA / "kubectl-first-hour.yaml"
ANSWERS: Final = DATA / "kubectl-1.35.8-answers.json.gz"
NAMESPACE: Final = "lab"
_PATIENCE_S: Final = 60.0
_TOKEN: Final = re.compile(r"(?:'[^']*'|[^\s'])+")
_ENVIRONMENT: Final = re.compile(r"[A-Z_]+=")
_READING: Final = frozenset({"get", "describe", "events", "rollout", "diff", "logs", "explain", "wait"})


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
    files: dict[str, str] = field(default_factory=dict)


def scenes() -> Iterator[Scene]:
    """All scenes."""
    for row in yaml.safe_load(SCENES.read_text()):
        commands = tuple(line for line in row["commands"].splitlines() if line)
        yield Scene(row["scene"], commands, row.get("files") or {})


def recorded() -> dict[str, list[tuple[str, Answer]]]:
    """The genuine answers: (command, answer) by scene."""
    document = json.loads(gzip.decompress(ANSWERS.read_bytes()))
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
        self._folder = folder
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "GOGC": "off",  # short lives need no garbage collector
        }
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
            out, err = await asyncio.wait_for(process.communicate(stdin), _PATIENCE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            return Answer(-1, "", "no answer")
        assert process.returncode is not None
        raw = "--raw" in words
        return Answer(process.returncode, comparable(out.decode(), raw=raw), comparable(err.decode()))

    async def ask_until(self, command: str, good: Callable[[Answer], bool], tries: int) -> Answer:
        """As `ask`; what only looks is asked again until its answer is good: controllers take a moment."""
        answer = await self.ask(command)
        for _ in range(tries if reads(command) else 0):
            if good(answer):
                break
            await asyncio.sleep(0.1)
            answer = await self.ask(command)
        return answer


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
        (r" \(x\d+ over \w+\)", ""),
        (r"(patch: Invalid value: )\".*\"(?=: )", r"\1PATCHED"),
        (r"^Warning: on this twin .*\n", ""),
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
