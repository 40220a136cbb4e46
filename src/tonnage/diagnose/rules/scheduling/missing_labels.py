"""SCH-6: labels that the pod selects nodes by and no node has, or values that no node has."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.diagnose.remedies.labelling import MAKERS, compared_number
from tonnage.model.kubernetes.selectors import Requirement
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.pods import LabelOfNobody
from tonnage.model.reasons.reason import Reason

_HOSTNAME: Final = "kubernetes.io/hostname"


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for each label, or value, that no node has, where the pod cannot do without."""
    if case.decision.chosen is not None or not case.view.nodes or not case.classes:
        return
    for requirement in dict.fromkeys(_required(case)):
        values = set(requirement.values) if requirement.operator == "In" else None
        if values and any(
            node.node.labels.get(requirement.key) in values for node in case.view.nodes.values()
        ):
            continue  # as a rule one of the first nodes has it
        there = {
            labels[requirement.key]
            for node in case.view.nodes.values()
            if requirement.key in (labels := node.node.labels)
        }
        if requirement.operator in ("Gt", "Lt") and (
            not requirement.values or compared_number(requirement.values[0]) is None
        ):
            message = f"{requirement} matches no label: the operator compares whole numbers"
            yield _reason(case, requirement, message, "correct the value")
        elif not there:
            yield _reason(
                case, requirement, f"no node has the label {requirement.key}", _label_maker(requirement.key)
            )
        elif values is not None:
            near = get_close_matches(requirement.values[0], sorted(there), n=1) if requirement.values else []
            message = f"no node has {requirement}; nodes have {listed(sorted(there))}"
            yield _reason(
                case,
                requirement,
                message,
                f"use {near[0]} if you meant that" if near else "correct the value",
            )


def _required(case: Case) -> Iterator[Requirement]:
    """What must hold of a node's labels: the nodeSelector, and the affinity where it has but one term."""
    for key, value in sorted(case.pod.node_selector.items()):
        yield Requirement(key, "In", (value,))
    terms = case.pod.affinity.node or ()
    for requirement in terms[0].expressions if len(terms) == 1 else ():
        if requirement.operator not in ("NotIn", "DoesNotExist") and requirement.key != _HOSTNAME:
            yield requirement


def _label_maker(key: str) -> str:
    maker = next((maker_text for domain, maker_text in MAKERS.items() if key.startswith(domain)), "")
    return maker or f"label the nodes that are meant: kubectl label node NODE {key}=…"


def _reason(case: Case, requirement: Requirement, message: str, remedy: str) -> Reason:
    return LabelOfNobody(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=message,
        remedy=remedy,
        source="Node metadata.labels",
        key=requirement.key,
        values=tuple(requirement.values),
    )
