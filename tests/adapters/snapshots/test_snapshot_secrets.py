"""Secrets of any characters, where people put them and messages quote them: none is in the file."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, quote_plus

from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.adapters.snapshots.capture import Order, capture
from tonnage.adapters.snapshots.component_messages import is_own
from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.adapters.snapshots.secret_values import common_words
from tonnage.model.redaction import REDACTED

Body = dict[str, Any]
Spelling = Callable[[str], str]
KINDS = {kind.kind: kind for kind in CAPTURED}
KEY = b"k" * 32
LONGEST = 200


def go_quoted(text: str) -> str:
    r"""As strconv.Quote writes it, and with it every `%q`.

    >>> go_quoted('a"\\\x01é')
    '"a\\"\\\\\\x01é"'
    """
    simple = {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
        '"': '\\"', "\\": "\\\\",
    }  # fmt: skip

    def written(char: str) -> str:
        code = ord(char)
        if char in simple:
            return simple[char]
        if char.isprintable():
            return char
        return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return '"' + "".join(map(written, text)) + '"'


def go_ascii(text: str) -> str:
    """As strconv.QuoteToASCII writes it (`%+q`)."""
    quoted = "".join(go_quoted(char)[1:-1] if char < "\x7f" else _by_number(char) for char in text)
    return f'"{quoted}"'


def _by_number(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def octal(text: str) -> str:
    """As the text form of protobuf writes it."""
    return "".join(chr(b) if 32 <= b < 127 and chr(b) not in "\"'\\" else f"\\{b:03o}" for b in text.encode())


def go_json(text: str) -> str:
    """As encoding/json writes it: no <, > or & as they are."""
    plain = json.dumps(text, ensure_ascii=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def std64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def url64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


SPELLINGS: dict[str, Spelling] = {
    "as it is": lambda text: text,
    "in quotes": lambda text: f'"{text}"',
    "by %q": go_quoted,
    "by %q of a program with arguments": lambda text: go_quoted(f"run --token={text}"),
    "by %+q": go_ascii,
    "in octal": lambda text: f'"{octal(text)}"',
    "in JSON": lambda text: json.dumps({"token": text}),
    "in JSON without ASCII": lambda text: json.dumps({"token": text}, ensure_ascii=False),
    "in JSON by Go": go_json,
    "by %q of JSON": lambda text: go_quoted(json.dumps({"token": text})),
    "by %q of %q of JSON by Go": lambda text: go_quoted(go_quoted(go_json(text))),
    "in YAML with single quotes": lambda text: "'" + text.replace("'", "''") + "'",
    "in the path of a URL": lambda text: f"https://db.example/{quote(text, safe='')}/x",
    "in the query of a URL": lambda text: f"Get https://db.example/x?key={quote_plus(text)}",
    "as a query alone": lambda text: f"key={quote_plus(text)}&more=1",
    "as the password of a URL": lambda text: f"postgres://joe:{quote(text, safe='')}@db.example/x",
    "in base64": std64,
    "in base64 of URLs": url64,
    "as a basic credential": lambda text: f"Authorization: Basic {std64(f'joe:{text}')}",
    "within base64, 1 byte in": lambda text: std64(f"x{text}y"),
    "within base64, 2 bytes in": lambda text: std64(f"xx{text}y"),
    "in base64 of JSON": lambda text: std64(json.dumps({"auths": {"r": {"auth": text}}})),
    "in base64 twice": lambda text: std64(std64(text)),
    "in HTML": lambda text: f'"{html.escape(text)}"',
    "by %q in HTML": lambda text: html.escape(go_quoted(text)),
}
MESSAGES = (
    "failed to create containerd task: OCI runtime create failed: exec: {}: permission denied",
    'Error: failed to start container "main": Error response from daemon: exec: {}: permission denied',
    'Error creating: admission webhook "deny.example" denied the request: env: {} is refused',
    'Pod "train" is invalid: spec.containers[0].args[0]: Invalid value: {}: must be no more than 63 bytes',
    "Failed to pull image: failed to do request: {}: EOF",
    "probe said {}",
    "{}",
)


def pod_with(secret: str, message: str) -> Body:
    """A pod with a secret where people put them, and a message wherever there can be one."""
    applied = {
        "spec": {"containers": [{"image": "r.example/train:v1", "env": [{"name": "A", "value": secret}]}]}
    }
    container = {
        "name": "main",
        "image": "r.example/train:v1",
        "command": ["run", secret],
        "args": [f"--token={secret}"],
        "env": [
            {"name": "TOKEN", "value": secret},
            {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s"}}},
        ],
        "livenessProbe": {
            "exec": {"command": ["check", secret]},
            "httpGet": {"path": f"/{secret}", "httpHeaders": [{"name": "Authorization", "value": secret}]},
        },
    }
    condition = {"type": "Ready", "status": "False", "reason": "Error", "message": message}
    state = {
        "waiting": {"reason": "RunContainerError", "message": message},
        "terminated": {"exitCode": 1, "reason": "Error", "message": f"CUDA out of memory\n{message}"},
    }
    return {
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied),
                "name": secret,
            },
            "managedFields": [{"manager": "kubectl", "fieldsV1": {f"v:{secret}": {}}}],
        },
        "data": {"key": secret},
        "stringData": {"key": secret},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": secret}}}],
        },
        "status": {
            "phase": "Pending",
            "message": message,
            "conditions": [condition],
            "containerStatuses": [{"name": "main", "state": state, "lastState": state}],
        },
    }


def objects_with(secret: str, message: str) -> list[tuple[str, Body]]:
    pod = pod_with(secret, message)
    status = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]}
    workload = {"metadata": pod["metadata"], "spec": {"template": pod}, "status": status}
    queued = {"metadata": pod["metadata"], "spec": {"podSets": [{"template": pod}]}, "status": status}
    return [("Pod", pod), ("ReplicaSet", workload), ("Job", workload), ("Workload", queued)]


class Recorded:
    """A cluster that has the same few objects of each kind."""

    server_ahead_s = 0.0

    def __init__(self, objects: list[tuple[str, Body]]) -> None:
        self._lists = {KINDS[kind].path(None): [body] for kind, body in objects}

    async def get_raw(self, path: str) -> Any:
        return {"items": self._lists.get(path.partition("?")[0], [])}


def file_of(objects: list[tuple[str, Body]], level: Level) -> bytes:
    """The file as it is written, packed."""
    lines: list[bytes] = []
    order = Order(level, datetime(2026, 1, 2, tzinfo=UTC), "tonnage")
    asyncio.run(capture(Recorded(objects), order, Redactor(level, KEY), lines.append, lambda *_: None))
    return gzip.compress(b"".join(lines))


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, part in value.items() for text in (key, *texts(part))]
    return [text for part in value for text in texts(part)] if isinstance(value, list) else [str(value)]


def in_file(packed: bytes) -> list[str]:
    """Every text of a file, and the file as it stands."""
    plain = gzip.decompress(packed).decode()
    return [plain, *(text for line in plain.splitlines() for text in texts(json.loads(line)))]


def is_short(secret: str) -> bool:
    """Whether it is hidden only where it is a whole quoted word."""
    return len(secret) < 4 or secret.lower() in common_words()


def leaks(secret: str, packed: bytes, without: list[str]) -> list[str]:
    """Spellings of a secret that stand in the file, and not in one without it."""
    told = [part for text in in_file(packed) for part in text.split(REDACTED)]
    found = []
    for name, spelled in SPELLINGS.items():
        text = spelled(secret)
        inner = text[1:-1] if name != "as it is" and text[0] in "\"'" else text
        wanted = f'"{inner}"' if is_short(secret) else inner
        if any(wanted in one for one in told) and not any(wanted in one for one in without):
            found.append(name)
    return found


SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=LONGEST) | st.text(
    st.sampled_from("ab7\\\"'`\n\t\x01\x7fé\u2028😀%&<>+/=: ,@$"), min_size=1, max_size=12
)


@given(
    SECRETS.filter(str.strip),
    st.sampled_from(sorted(SPELLINGS)),
    st.sampled_from(MESSAGES),
    st.sampled_from(Level),
)
@example('hunter2\\hunter"3', "by %q", MESSAGES[0], Level.VALUES)
@example('hunter2\\hunter"3', "by %q of JSON", MESSAGES[2], Level.VALUES)
@example("s3\\", "by %q", MESSAGES[1], Level.VALUES)
@example("p w", "in quotes", MESSAGES[5], Level.VALUES)
def test_no_spelling_of_a_secret_is_in_the_file(
    secret: str, spelling: str, message: str, level: Level
) -> None:
    said = message.format(SPELLINGS[spelling](secret))
    if is_own(said) or (is_short(secret) and spelling not in ("in quotes", "by %q")):
        return
    packed = file_of(objects_with(secret, said), level)
    without = in_file(file_of(objects_with("", ""), level))
    assert secret in without or leaks(secret, packed, without) == []
