"""What the texts of `refusal_texts.toml` name: a resource, a claim, an amount."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from re import Match
from typing import Final

from tonnage.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class RefusalFacts:
    """Each as it stands in the text, empty where that does not name it. Patterns have groups of these names.

    `keys` to `limited` are a quota's amounts by resource, `bound` to `amount` a LimitRange's or a node's.
    """

    claim: str = ""
    error: str = ""
    key: str = ""
    value: str = ""
    namespace: str = ""
    plugins: str = ""
    request: str = ""
    device_class: str = ""
    group: str = ""
    node: str = ""
    count: str = ""
    gates: str = ""
    shortage: str = ""
    quota: str = ""
    keys: str = ""
    requested: str = ""
    used: str = ""
    limited: str = ""
    bound: str = ""
    resource: str = ""
    per: str = ""
    most: str = ""
    amount: str = ""
    limit: str = ""
    runtime_class: str = ""
    priority_class: str = ""
    level: str = ""
    faults: str = ""
    webhook: str = ""
    words: str = ""
    kind: str = ""
    version: str = ""
    account: str = ""

    @classmethod
    def of(cls, match: Match[str]) -> RefusalFacts:
        """Those that a pattern of the catalogue names."""
        return cls(**match.groupdict(default=""))

    def to_json(self) -> JsonObject:
        """Those that the text names, in the order of its words."""
        return {name: value for name, value in asdict(self).items() if value}


NO_FACTS: Final = RefusalFacts()
