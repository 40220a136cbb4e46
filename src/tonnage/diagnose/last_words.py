"""Rows 41 to 90: what a pod's own status quotes of kubelet, runtime, driver or program, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.diagnose.messages import Heard, heard_by_reason, heard_in
from tonnage.model.catalog.messages import Message, messages
from tonnage.model.cluster import Pod
from tonnage.model.json import JsonValue
from tonnage.model.verdict import Reason


@dataclass(frozen=True, slots=True)
class Said:
    """Words of a status: `where` begins a sentence on them; `reason` is kubelet's word for it."""

    subject: str
    where: str
    reason: str
    text: str
    container: str = ""


def words_of(pod: Pod) -> Iterator[Said]:
    """What is said of a pod and of its containers that wait or have ended badly, nearest the cause first."""
    on = f"on {pod.node_name}, " if pod.node_name else ""
    for end in pod.status.ended:
        if end.exit_code or end.message:
            how = f"ended with exit code {end.exit_code}" if end.exit_code else "ended"
            word = f" ({end.reason})" if end.reason not in ("", "Error", "Completed") else ""
            where = f"{on}container {end.container} {how}{word}"
            yield Said(f"Container {end.container}", where, end.reason, end.message, end.container)
    for wait in pod.status.waiting:
        where = f"{on}container {wait.container} waits: {wait.reason or 'no reason given'}"
        yield Said(f"Container {wait.container}", where, wait.reason, wait.message, wait.container)
    if pod.status.phase == "Failed":
        word = f" ({pod.status.reason})" if pod.status.reason else ""
        where = f"failed on {pod.node_name or 'its node'}{word}"
        yield Said(f"Pod {pod.namespace}/{pod.name}", where, pod.status.reason, pod.status.message)


def known_trouble(pod: Pod) -> tuple[Reason, Message] | None:
    """The most telling known message of a pod's status; a bare word of kubelet's only where no text tells."""
    order = {id(message): number for number, message in enumerate(messages())}
    said = tuple(words_of(pod))
    heard = [
        (order[id(one.message)], place, each, one)
        for place, each in enumerate(said)
        for one in heard_in(each.text)
    ]
    if heard:
        _, _, each, one = min(heard, key=lambda found: found[:2])
        return _reason(pod, each, one), one.message
    for each in said:
        message = heard_by_reason(each.reason)
        if message is not None:
            return _reason(pod, each, Heard(message, each.text, {})), message
    return None


def _reason(pod: Pod, said: Said, heard: Heard) -> Reason:
    message = heard.message
    facts: dict[str, JsonValue] = {
        "reason": said.reason,
        "words": heard.words,
        "check": in_words(message.check, pod),
    }
    facts.update(heard.facts)
    if said.container:
        facts["container"] = said.container
    quoted = f": {heard.words}" if heard.words else ""
    return Reason(
        message.code,
        message.layer,
        said.subject,
        f"{said.where}: {message.meaning}{quoted}",
        facts,
        in_words(message.remedy, pod),
        message.source,
        lasting=pod.status.phase == "Failed",
    )


def in_words(text: str, pod: Pod) -> str:
    """A line of the catalogue with the pod's names."""
    return text.replace("{namespace}", pod.namespace).replace("{name}", pod.name)
