"""Every field of NVIDIA's ClusterPolicy either does something here or says why it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tonnage.model.catalog.cluster_policy import policy_fields
from tonnage.model.catalog.definition_fields import Fields
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.catalog.policy_effects import policy_effects


def paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    for name, inner in fields.items():
        if isinstance(inner, Mapping):
            yield from paths(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def schema_sections() -> list[str]:
    spec: Any = nvidia_definition("clusterpolicies")["spec"]
    [version] = spec["versions"]
    return sorted(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def test_every_field_is_judged() -> None:
    why = {path: policy_effects().why_without(path) for path in paths(policy_fields().fields)}
    assert len(why) > 300
    assert [path for path, text in why.items() if text is not None and "does not know" in text] == []


@pytest.mark.parametrize("section", schema_sections())
def test_a_section_of_the_definition_is_judged(section: str) -> None:
    effects = policy_effects()
    known = {path.partition(".")[0] for path in (*effects.honoured, *effects.without_effect)}
    assert section in known


def test_a_field_of_another_release_is_named_as_such() -> None:
    assert "does not know" in (policy_effects().why_without("telepathy.enabled") or "")
