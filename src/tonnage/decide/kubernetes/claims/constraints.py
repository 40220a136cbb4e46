"""matchAttributeConstraint, distinctAttributeConstraint: constraints between a claim's devices.

Source: k8s.io/dynamic-resource-allocation/structured, matchAttribute and distinctAttribute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tonnage.model.kubernetes.resource_claims import Attribute, Constraint, SliceDevice


@dataclass(slots=True)
class ConstraintState:
    """A constraint and the values that it has seen, each with the request that brought it."""

    constraint: Constraint
    last_of_request: bool = False
    """1.36's mistake: of values that must differ, only a request's last one is remembered (k/k 140438)."""
    values: list[tuple[str, Attribute]] = field(default_factory=list)

    def concerns(self, request: str, alternative: str) -> bool:
        """Whether the constraint is about a request or one of its alternatives."""
        names = self.constraint.requests
        return not names or request in names or (bool(alternative) and f"{request}/{alternative}" in names)

    def add(self, request: str, driver: str, device: SliceDevice) -> bool:
        """Take a device of a request in; False when the constraint forbids it."""
        value = attribute_of(device, driver, self.constraint.attribute)
        if value is None:
            return False
        if self.constraint.distinct:
            others = dict(self.values).values() if self.last_of_request else [v for _, v in self.values]
            if any(_same(value, other) for other in others):
                return False
        elif self.values and not _same(value, self.values[0][1]):
            return False
        self.values.append((request, value))
        return True

    def remove(self) -> None:
        """Forget the device that came last."""
        self.values.pop()


def attribute_of(device: SliceDevice, driver: str, name: str) -> Attribute:
    """The attribute `domain/id`; the driver's own may be published without their domain."""
    if name in device.attributes:
        return device.attributes[name]
    domain, _, identifier = name.partition("/")
    return device.attributes.get(identifier) if domain == driver else None


def _same(value: Attribute, other: Attribute) -> bool:
    return type(value) is type(other) and value == other
