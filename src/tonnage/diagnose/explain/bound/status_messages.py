"""Rows 41 to 90: what a pod's own status quotes of kubelet, runtime, driver or program, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.diagnose.messages import Heard, heard_by_reason, heard_in
from tonnage.model.catalog.messages import messages
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.workloads import Happening, WorkloadKey
from tonnage.model.reasons.reason import Reason

_CRASHING: Final = "CrashLoopBackOff"
_LONGEST_LINE: Final = 300
_MOST_EVENTS: Final = 64


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


def known_trouble(pod: Pod) -> Reason | None:
    """The most telling known message of a pod's status, by its texts and by kubelet's words for them."""
    return _most_telling(pod, words_of(pod))


def known_event(pod: Pod, events: Iterable[Happening]) -> Reason | None:
    """A known message in Events about a pod that waits on its node: of sandboxes no object tells."""
    mine = [one for one in events if one.about == WorkloadKey("Pod", pod.namespace, pod.name)]
    mine.sort(key=lambda one: (one.last is not None, one.last), reverse=True)
    subject = f"Pod {pod.namespace}/{pod.name}"
    said = (
        Said(subject, f"on {pod.node_name}, it waits ({one.reason})", one.reason, one.message)
        for one in mine[:_MOST_EVENTS]
    )
    return _most_telling(pod, said)


def _most_telling(pod: Pod, words: Iterable[Said]) -> Reason | None:
    order = {id(message): number for number, message in enumerate(messages())}
    found: list[tuple[int, int, Said, Heard]] = []
    for place, said in enumerate(words):
        heard = list(heard_in(said.text))
        by_reason = heard_by_reason(said.reason)
        if by_reason is not None and by_reason not in (one.message for one in heard):
            heard.append(Heard(by_reason, said.text, by_reason.symptom({})))
        found += [(order[id(one.message)], place, said, one) for one in heard]
    if not found:
        return None
    _, _, said, one = min(found, key=lambda each: each[:2])
    return _reason(pod, said, one)


def _reason(pod: Pod, said: Said, heard: Heard) -> Reason:
    message = heard.message
    quoted = f": {heard.words}" if heard.words else ""
    quoted += _before(pod, said) if said.reason == _CRASHING else ""
    return replace(
        heard.symptom,
        subject=said.subject,
        message=f"{said.where}: {message.meaning}{quoted}",
        remedy=in_words(message.remedy, pod),
        lasting=pod.status.phase == "Failed",
        reason=said.reason,
        words=heard.words,
        check=in_words(message.check, pod),
        container=said.container or None,
    )


def _before(pod: Pod, said: Said) -> str:
    """How a container that crashes again and again ended last, with the last line that it left."""
    end = next((end for end in pod.status.ended if end.container == said.container), None)
    if end is None:
        return ""
    lines = end.message.strip().splitlines()
    last = f": {lines[-1][:_LONGEST_LINE]}" if lines else ""
    return f"; before, it ended with exit code {end.exit_code}{last}"


def in_words(text: str, pod: Pod) -> str:
    """A line of the catalogue with the pod's names."""
    return text.replace("{namespace}", pod.namespace).replace("{name}", pod.name)
