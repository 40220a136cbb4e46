"""Parts of devices: how much of a capacity a request takes, and whether that much is left.

Source: k8s.io/dynamic-resource-allocation/structured (consumable capacity).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tonnage.model.kubernetes.resource_claims import Capacity, Quantities, RequestPolicy, SliceDevice


def consumption(device: SliceDevice, requested: Quantities | None) -> dict[str, Fraction] | None:
    """What a request takes of each capacity; None when the device lacks one or its policy forbids it."""
    amounts = requested or {}
    if any(name not in device.capacity for name in amounts):
        return None
    consumed: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        amount = _rounded(capacity, amounts.get(name))
        if _violates(amount, capacity.policy):
            return None
        consumed[name] = amount
    return consumed


def fits(device: SliceDevice, consumed: Quantities, *others: Mapping[str, Fraction]) -> bool:
    """Whether what is taken fits beside what others have of the device."""
    return all(
        amount + sum((other.get(name, Fraction(0)) for other in others), Fraction(0))
        <= device.capacity[name].value
        for name, amount in consumed.items()
    )


def _rounded(capacity: Capacity, requested: Fraction | None) -> Fraction:
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.least is not None:
        return _in_steps(requested, policy.least, policy.step)
    return next((value for value in policy.values if requested <= value), requested)


def _in_steps(requested: Fraction, least: Fraction, step: Fraction | None) -> Fraction:
    if requested < least:
        return least
    if step is None or step <= 0:
        return requested
    return least + -(-(requested - least) // step) * step


def _violates(amount: Fraction, policy: RequestPolicy | None) -> bool:
    if policy is None or amount == policy.default:
        return False
    if policy.least is not None or policy.most is not None:
        if policy.most is not None and amount > policy.most:
            return True
        return bool(policy.step) and (amount - (policy.least or 0)) % (policy.step or 1) != 0
    return bool(policy.values) and amount not in policy.values
