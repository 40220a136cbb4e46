"""ShouldContainerBeRestarted: whether a container that ended is started again.

Source: Kubernetes 1.35, pkg/api/v1/pod/util.go (ContainerShouldRestart).
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.model.json import JsonObject


def starts_again(policy: str, rules: Iterable[JsonObject], of_pod: str, exit_code: int) -> bool:
    """By the container's rules, then its own policy, then the pod's.

    >>> starts_again("", (), "OnFailure", 1), starts_again("Never", (), "Always", 1)
    (True, False)
    """
    if policy and any(_matches(rule, exit_code) for rule in rules):
        return True
    effective = policy or of_pod
    return effective not in {"Never", "OnFailure"} or (effective == "OnFailure" and exit_code != 0)


def _matches(rule: JsonObject, exit_code: int) -> bool:
    match rule:
        case {"action": "Restart", "exitCodes": {"operator": "In", "values": list(values)}}:
            return exit_code in values
        case {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": list(values)}}:
            return exit_code not in values
    return False
