"""Texts that people paste out of kubectl: part by part, for the wordings of 1.31 to 1.37 and older ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.diagnose.pasted.refusals import refusals_in
from tonnage.diagnose.pasted.scheduling import scheduling_texts
from tonnage.model.catalog.refusal_facts import RefusalFacts
from tonnage.model.catalog.refusal_texts import MessageSlot, refusal_texts
from tonnage.model.reasons.registry import reasons

VICTIMS = "No preemption victims found for incoming pod"
GPUS = "Insufficient nvidia.com/gpu"
CASES = yaml.load(Path(__file__).with_name("pasted_texts.yaml").read_text(), yaml.CSafeLoader)

Codes = list[tuple[int | None, str | None]]


def codes(text: str) -> Codes:
    """(count, code) of each part, then of what preemption came to; None for what is not understood."""
    [message] = scheduling_texts(text)
    return [
        (part.count, part.meaning.code if part.meaning is not None else None)
        for part in (*message.parts, *message.preemption)
    ]


@pytest.mark.parametrize("case", CASES["scheduling"], ids=lambda case: case["about"])
def test_a_message_of_the_scheduler_is_taken_apart(case: dict[str, Any]) -> None:
    assert codes(case["text"]) == [tuple(part) for part in case["parts"]]
    [message] = scheduling_texts(case["text"])
    assert (message.releases, message.sum_text) == (case["releases"], case["sum"])


def test_what_a_part_names_is_a_fact_and_stands_in_its_remedy() -> None:
    text = f"0/2 nodes are available: 1 {GPUS}, 1 node(s) had untolerated taint {{acme.com/team: a}}."
    [gpus, taint] = scheduling_texts(text)[0].parts
    assert gpus.facts == RefusalFacts(resource="nvidia.com/gpu")
    assert gpus.to_json()["facts"] == {"resource": "nvidia.com/gpu"}
    assert gpus.meaning is not None
    assert "less nvidia.com/gpu free" in gpus.meaning.meaning
    assert gpus.meaning.frees is True
    assert taint.meaning is not None
    assert "toleration for the key acme.com/team" in taint.meaning.remedy
    assert taint.meaning.frees is False


MESSAGE = f"0/2 nodes are available: 1 Insufficient cpu, 1 {GPUS}."
OTHER = MESSAGE.replace("0/2", "0/3")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param(
            "Events:\n  Type     Reason            Age   From               Message\n"
            f"  Warning  FailedScheduling  12s   default-scheduler  {MESSAGE}\n  Normal   Scheduled  1s\n",
            [MESSAGE],
            id="kubectl describe",
        ),
        pytest.param(f"{MESSAGE}\n{MESSAGE}\n", [MESSAGE], id="one message twice"),
        pytest.param(
            f"a: {MESSAGE}\nb: {MESSAGE.replace('0/2', '0/3')}",
            [MESSAGE, MESSAGE.replace("0/2", "0/3")],
            id="two",
        ),
        pytest.param(
            f"0/2 nodes are available: 1 Insufficient cpu,\n    1 {GPUS}.\n   preemption: 0/2 nodes are\n"
            f"available: 2 {VICTIMS}.\nBest regards",
            [f"{MESSAGE} preemption: 0/2 nodes are available: 2 {VICTIMS}."],
            id="lines that a mail broke",
        ),
        pytest.param(json.dumps({"message": MESSAGE, "reason": "x."}), [MESSAGE], id="JSON"),
        pytest.param(
            json.dumps({"message": '0/1 nodes are available: persistentvolumeclaim "a" not found.'}),
            ['0/1 nodes are available: persistentvolumeclaim "a" not found.'],
            id="JSON with quotes in it",
        ),
        pytest.param("12/12 nodes are available", [], id="not refused"),
        pytest.param("all is well", [], id="something else"),
    ],
)
def test_messages_are_found_where_they_are_pasted_from(text: str, messages: list[str]) -> None:
    assert [message.words for message in scheduling_texts(text)] == messages


@pytest.mark.parametrize("case", CASES["refusals"], ids=lambda case: case["code"])
def test_a_refusal_is_known_by_its_text(case: dict[str, Any]) -> None:
    [part] = refusals_in(f"Warning FailedCreate 3s job-controller {case['text']}\nsomething else\n")
    assert part.meaning is not None
    assert (part.meaning.code, part.facts.to_json()) == (case["code"], case["facts"])
    assert "{" not in part.meaning.meaning + part.meaning.remedy


def test_codes_are_those_of_reasons_and_every_row_says_all() -> None:
    for place in MessageSlot:
        for row in refusal_texts(place):
            assert not row.code or row.code in reasons(), row.code
            assert all((row.meaning, row.check, row.remedy, row.wordings))
            assert row.code or place is not MessageSlot.TEXT
            row.with_facts(RefusalFacts())


@given(st.text(st.sampled_from("0/3 nodesarvilb:,.1 {}'()\n\"\\"), max_size=200))
def test_no_words_are_an_error(text: str) -> None:
    for pasted in (text, f"0/3 nodes are available: {text}", f'"0/3 nodes are available: {text}'):
        for message in scheduling_texts(pasted):
            message.to_json()
        refusals_in(pasted)


DATA = Path(__file__).parents[1] / "data"
RECORDED = sorted(
    {
        message
        for file in DATA.glob("kube-scheduler-1.35.4-*.json.gz")
        for case in json.loads(gzip.decompress(file.read_bytes()))["cases"]
        if (message := case["expect"].get("message") or "").startswith("0/")
    }
)


def test_every_recorded_message_is_understood_whole_and_adds_up() -> None:
    """Of a genuine 1.35.4, in all its cases."""
    assert len(RECORDED) > 100
    for words in RECORDED:
        [message] = scheduling_texts(words)
        strange = [part.words for part in (*message.parts, *message.preemption) if part.meaning is None]
        assert not strange, words
        for total in (message.sum_text, message.preemption_sum_text):
            assert "missing" not in total, words
            assert "changed" not in total, words
        assert message.words == words
        assert message.releases in ("", "1.34.2 or later", "1.31 to 1.36", "1.34.2 to 1.36", "1.33 or later")
