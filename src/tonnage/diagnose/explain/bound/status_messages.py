"""Rows 41 to 90: what a pod's own status quotes of kubelet, runtime, driver or program, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.diagnose.messages import MessageMatch, matches_in, message_by_reason
from tonnage.model.catalog.messages import messages
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.workloads import ClusterEvent, WorkloadKey
from tonnage.model.reasons.reason import Reason

_CRASHING: Final = "CrashLoopBackOff"
_LONGEST_LINE: Final = 300
_MOST_EVENTS: Final = 64


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """Words of a status: `where` begins a sentence on them; `reason` is kubelet's word for it."""

    subject: str
    where: str
    reason: str
    text: str
    container: str = ""


def words_of(pod: Pod) -> Iterator[StatusMessage]:
    """What is said of a pod and of its containers that wait or have ended badly, nearest the cause first."""
    on = f"on {pod.node_name}, " if pod.node_name else ""
    for end in pod.status.ended:
        if end.exit_code or end.message:
            how = f"ended with exit code {end.exit_code}" if end.exit_code else "ended"
            word = f" ({end.reason})" if end.reason not in ("", "Error", "Completed") else ""
            where = f"{on}container {end.container} {how}{word}"
            yield StatusMessage(f"Container {end.container}", where, end.reason, end.message, end.container)
    for wait in pod.status.waiting:
        where = f"{on}container {wait.container} waits: {wait.reason or 'no reason given'}"
        yield StatusMessage(f"Container {wait.container}", where, wait.reason, wait.message, wait.container)
    if pod.status.phase == "Failed":
        word = f" ({pod.status.reason})" if pod.status.reason else ""
        where = f"failed on {pod.node_name or 'its node'}{word}"
        yield StatusMessage(f"Pod {pod.namespace}/{pod.name}", where, pod.status.reason, pod.status.message)


def known_trouble(pod: Pod) -> Reason | None:
    """The most telling known message of a pod's status, by its texts and by kubelet's words for them."""
    return _most_telling(pod, words_of(pod))


_PREPARING: Final = "FailedPrepareDynamicResources"
"""Each attempt has an Event of its own, and only the last one's counts."""


def known_event(pod: Pod, events: Iterable[ClusterEvent]) -> Reason | None:
    """A known message in Events about a pod that waits on its node: of sandboxes no object tells."""
    own_events = [event for event in events if event.about == WorkloadKey("Pod", pod.namespace, pod.name)]
    own_events.sort(key=lambda event: (event.last is not None, event.last), reverse=True)
    last = next((event for event in own_events if event.reason == _PREPARING), None)
    own_events = [event for event in own_events if event.reason != _PREPARING or event is last]
    subject = f"Pod {pod.namespace}/{pod.name}"
    words = (
        StatusMessage(subject, f"on {pod.node_name}, it waits ({event.reason})", event.reason, event.message)
        for event in own_events[:_MOST_EVENTS]
    )
    return _most_telling(pod, words)


def _most_telling(pod: Pod, words: Iterable[StatusMessage]) -> Reason | None:
    order = {id(message): number for number, message in enumerate(messages())}
    candidates: list[tuple[int, int, StatusMessage, MessageMatch]] = []
    for place, text_match in enumerate(words):
        matched = list(matches_in(text_match.text))
        by_reason = message_by_reason(text_match.reason)
        if by_reason is not None and by_reason not in (match.message for match in matched):
            matched.append(MessageMatch(by_reason, text_match.text, by_reason.symptom({})))
        candidates += [(order[id(match.message)], place, text_match, match) for match in matched]
    if not candidates:
        return None
    _, _, text_match, match = min(candidates, key=lambda candidate: candidate[:2])
    return _reason(pod, text_match, match)


def _reason(pod: Pod, text_match: StatusMessage, match: MessageMatch) -> Reason:
    message = match.message
    quoted = f": {match.words}" if match.words else ""
    quoted += _before(pod, text_match) if text_match.reason == _CRASHING else ""
    return replace(
        match.symptom,
        subject=text_match.subject,
        message=f"{text_match.where}: {message.meaning}{quoted}",
        remedy=in_words(message.remedy, pod),
        lasting=pod.status.phase == "Failed",
        reason=text_match.reason,
        words=match.words,
        check=in_words(message.check, pod),
        container=text_match.container or None,
    )


def _before(pod: Pod, text_match: StatusMessage) -> str:
    """How a container that crashes again and again ended last, with the last line that it left."""
    end = next((end for end in pod.status.ended if end.container == text_match.container), None)
    if end is None:
        return ""
    lines = end.message.strip().splitlines()
    last = f": {lines[-1][:_LONGEST_LINE]}" if lines else ""
    return f"; before, it ended with exit code {end.exit_code}{last}"


def in_words(text: str, pod: Pod) -> str:
    """A line of the catalogue with the pod's names."""
    return text.replace("{namespace}", pod.namespace).replace("{name}", pod.name)
