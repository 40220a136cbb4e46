"""What a snapshot keeps of a message, and that texts which decide an answer stay as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.redact import Level, Redactor

Body = dict[str, Any]
KINDS = {kind.kind: kind for kind in CAPTURED}
KEY = b"k" * 32


def said_of(value: str, message: str, **fields: Any) -> str:
    """A message of a pod that has a variable of that value."""
    variable = {"name": "A", "value": value}
    container = {"name": "main", "image": "r.example/llama:v1", "env": [variable], **fields}
    status = {"containerStatuses": [{"state": {"waiting": {"message": message}}}]}
    pod: Body = {"spec": {"containers": [container]}, "status": status}
    kept: Any = Redactor(Level.VALUES, KEY).redacted(pod, KINDS["Pod"])
    text: str = kept["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    return text


@pytest.mark.parametrize(
    ("value", "message", "expected"),
    [
        pytest.param("80", "80 of port '80'", "80 of port '[redacted]'", id="a short one only in quotes"),
        pytest.param(
            "TRUE", 'it says "TRUE", TRUE', 'it says "[redacted]", TRUE', id="a constant only in quotes"
        ),
        pytest.param("error", "an error", "an error", id="a word of known messages only in quotes"),
        pytest.param(
            "abc1", "xabc1y abc1.", "xabc1y [redacted].", id="one of few letters where it stands alone"
        ),
        pytest.param("hunter2hunter2", "xhunter2hunter2y", "x[redacted]y", id="a longer one anywhere"),
        pytest.param(
            "pg://joe:s3cr3t@db/x", "no s3cr3t there", "no [redacted] there", id="a password out of a URL"
        ),
        pytest.param(
            "a=b1;Pwd=s3cr3t;", "no s3cr3t there", "no [redacted] there", id="a part of a connection string"
        ),
        pytest.param(
            "one\ns3cr3t-two", "no s3cr3t-two there", "no [redacted] there", id="one line of several"
        ),
        pytest.param("czNjcjN0", "no s3cr3t there", "no [redacted] there", id="a value that is base64 of it"),
        pytest.param('{"k":"s3\\"cr"}', 's3"cr', "[redacted]", id="a text within JSON"),
        pytest.param(
            "s3cr3t-s3cr3t", "no S3CR3T_S3CR3T", "[redacted]", id="with other marks the message goes"
        ),
        pytest.param("s3cr3t-and-more", "cut: s3cr3t-an...", "[redacted]", id="cut off the message goes"),
        pytest.param(
            "llama",
            'Back-off pulling image "r.example/llama:v1"',
            'Back-off pulling image "r.example/llama:v1"',
            id="what the file shows anyway stays",
        ),
        pytest.param(
            "x y z",
            'exec: "nvidia-smi": executable file not found in $PATH: "x\\u0020y z"',
            'exec: "nvidia-smi": executable file not found in $PATH: "[redacted]"',
            id="the cause stays",
        ),
        pytest.param(
            "s3cr3t",
            'CUDA out of memory: "\\u00733cr3t..."',
            "[redacted]\nCUDA out of memory",
            id="of a message that goes the words that are known stay",
        ),
        pytest.param(
            "x",
            'Get "https://joe:pw@r.example/v2?sig=abc&x=1": EOF',
            'Get "https://[redacted]@r.example/v2?[redacted]": EOF',
            id="credentials and queries in URLs go",
        ),
        pytest.param(
            "x", "failed: TOKEN=abc", "failed: TOKEN=[redacted]", id="what calls itself a token goes"
        ),
        pytest.param(
            "x",
            'spec.env: Invalid value: "s3c\\"r3t": must be',
            'spec.env: Invalid value: "[redacted]": must be',
            id="a field's value in a refusal goes",
        ),
        pytest.param(
            "x",
            'limits: Invalid value: "1": must be 2',
            'limits: Invalid value: "1": must be 2',
            id="an amount in a refusal stays",
        ),
        pytest.param("s3cr3t", f"{'word ' * 2000}s3cr3t", "[redacted]", id="a message that is too long goes"),
        pytest.param("s3cr3t", '"a"' * 300, "[redacted]", id="one of too many quotes goes"),
    ],
)
def test_of_a_message_is_kept(value: str, message: str, expected: str) -> None:
    assert said_of(value, message) == expected


def test_a_command_line_that_takes_in_variables_is_never_quoted() -> None:
    message = 'exec: "run s3cr3t": stat /bin/run s3cr3t: no such file or directory'
    told = said_of("", message, command=["run $(TOKEN)"], envFrom=[{"secretRef": {"name": "s"}}])
    assert told == 'exec: "[redacted]": stat [redacted]: no such file or directory'


def test_credentials_in_the_name_of_an_image_go_and_digests_stay() -> None:
    images = {
        "joe:s3cr3t@r.example/a:v1": "[redacted]@r.example/a:v1",
        "https://joe:s3cr3t@r.example/a": "https://[redacted]@r.example/a",
        "r.example:5000/a:v1@sha256:00": "r.example:5000/a:v1@sha256:00",
        "a:v1@sha256:00": "a:v1@sha256:00",
    }
    pod: Body = {"spec": {"containers": [{"image": image} for image in images]}}
    kept: Any = Redactor(Level.VALUES, KEY).redacted(pod, KINDS["Pod"])
    assert [container["image"] for container in kept["spec"]["containers"]] == [*images.values()]


OWN = (
    "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s).",
    '0/1 nodes are available: persistentvolumeclaim "data" not found. not found',
    'pods "a-1" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=1, limited: pods=1',
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu, 4 more",
    "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = none, which is unexpected",
    "back-off 5m0s restarting failed container=main pod=train_ml(0f3a)",
)  # fmt: skip


@pytest.mark.parametrize("text", OWN, ids=lambda text: text[:30])
def test_texts_that_are_made_of_names_and_numbers_stay(text: str) -> None:
    assert said_of(text, text, args=text.split()) == text


@pytest.mark.parametrize("text", OWN, ids=lambda text: text[:30])
def test_a_text_that_only_begins_as_those_do_is_searched(text: str) -> None:
    assert "s3cr3t" not in said_of("s3cr3t", f'{text}: exec: "/S3": s3cr3t')


def test_what_the_agent_says_stays() -> None:
    words = {"kind": "1 of 2 GPUs are usable"}
    condition = {"type": "GPUsHealthy", "status": "False", "message": words["kind"]}
    node: Body = {"metadata": {"annotations": words}, "status": {"conditions": [condition]}}
    report: Body = {"metadata": {"annotations": words}, "status": {"problems": [words["kind"]]}}
    for kind, body in (("Node", node), ("NodeGPUStatus", report)):
        kept = Redactor(Level.VALUES, KEY).redacted(body, KINDS[kind])
        assert words["kind"] in json.dumps(kept), kind


def test_annotations_that_decide_stay_and_no_others() -> None:
    notes: Body = {
        "deployment.kubernetes.io/revision": "3",
        "volume.kubernetes.io/selected-node": "a",
        "nvidia.com/use-gputype": "T4",
        "own.example/note": "s3cr3t",
    }
    kept = [
        Redactor(level, KEY).redacted({"metadata": {"annotations": notes}}, KINDS["Pod"])["metadata"]
        for level in Level
    ]
    first, second = [list(meta["annotations"]) for meta in kept if isinstance(meta, dict)]  # type: ignore[arg-type]
    assert first == list(notes)[:3]
    assert second == list(notes)[:2]
