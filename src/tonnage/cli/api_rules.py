"""The API server's own rules, where this installation has them, with the custom kinds that are defined."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from tonnage.cli.terminal.output import say
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiFault, ApiServer
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, FeatureGates

if TYPE_CHECKING:
    from tonnage.decide.kubernetes.api.custom.definitions import CustomDefinitions

_DEFINITION = "CustomResourceDefinition"
_NVIDIAS = ("gpuclusters", "nvidiadrivers")
"""Kinds of NVIDIA's that no rule of lint's own looks at."""


def api_server(objects: Iterable[JsonObject] = (), gates: FeatureGates = DEFAULT_GATES) -> ApiServer | None:
    """What answers as an API server with these gates would, once the definitions among the objects are there.

    None, with a word on stderr, in the agent's image.
    """
    try:
        from tonnage.decide.kubernetes.api.creation import answer_to_create
    except ModuleNotFoundError:
        say("not checked against the API server's own rules: this image does not contain them", err=True)
        return None
    return partial(answer_to_create, definitions=custom_definitions(objects), gates=gates)


def policy_faults(obj: JsonObject) -> tuple[ApiFault, ...]:
    """What the API server refuses of an object of NVIDIA's; nothing in the agent's image."""
    try:
        from tonnage.decide.kubernetes.api.creation import answer_to_create
        from tonnage.decide.kubernetes.api.custom.definitions import definitions_in
    except ModuleNotFoundError:
        return ()
    from tonnage.model.catalog.nvidia_kinds import DEFINITIONS, nvidia_definition

    answer = answer_to_create(obj, "", definitions=definitions_in(map(nvidia_definition, DEFINITIONS)))
    return () if answer is None else answer.faults or answer.later


def custom_definitions(objects: Iterable[JsonObject]) -> CustomDefinitions:
    """NVIDIA's kinds, and the valid definitions among the objects; none in the agent's image."""
    try:
        from tonnage.decide.kubernetes.api.creation import answer_to_create
        from tonnage.decide.kubernetes.api.custom.definitions import definitions_in
    except ModuleNotFoundError:
        return {}
    from tonnage.model.catalog.nvidia_kinds import nvidia_definition

    own = [obj for obj in objects if obj.get("kind") == _DEFINITION]
    answers = ((obj, answer_to_create(obj, "")) for obj in own)
    valid = [obj for obj, answer in answers if answer is not None and not answer.message]
    return definitions_in((*map(nvidia_definition, _NVIDIAS), *valid))
