"""The pods that a custom kind makes of one of its templates: whose they are and what they are called."""

from __future__ import annotations

from dataclasses import dataclass, field

from tonnage.model.kubernetes.selectors import Labels


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template. `part` is what the kind calls them; `where` the template's path in the object.

    `prefix` begins their names; `per_group` of them share a first number, and the second begins at `first`.
    `generated`: the API server ends their names at random. `labels` are those that the controller gives.
    `independent`: each runs and ends without the others, so that one that waits gets its turn.
    """

    part: str
    where: str
    prefix: str
    per_group: int = 1
    first: int = 0
    generated: bool = False
    labels: Labels = field(default_factory=dict)
    independent: bool = False

    def name(self, index: int) -> str:
        """What a pod is called; `-new` stands where the API server makes up the end.

        >>> PodSet("worker", "", "llm", 2, 1).name(3), PodSet("head", "", "ray-head", generated=True).name(0)
        ('llm-1-2', 'ray-head-new-0')
        """
        if self.generated and self.per_group == 1:
            return f"{self.prefix}-new-{index}"
        if self.per_group == 1 and not self.first:
            return f"{self.prefix}-{index}"
        group, place = divmod(index, self.per_group)
        return f"{self.prefix}-{group}-{place + self.first}{'-new' if self.generated else ''}"
