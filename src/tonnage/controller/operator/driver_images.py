"""What registries say of drivers' images, each asked now and then."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.operate.drivers.daemon_set import pull_secrets
from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.decide.cluster.operate.drivers.images import registry_proxy
from tonnage.model.drivers.images import ImageAnswer, RegistryRoute, TagState
from tonnage.model.errors import ClusterError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.ports.registry import ImageRegistry
from tonnage.wire.kinds import CONFIG_MAP, SECRET
from tonnage.wire.objects import Secret

_KNOWN_S: Final = 3600.0
_MISSING_S: Final = 60.0
"""An image that is missing may be pushed any time."""
_UNKNOWN_S: Final = 600.0
_LASTS: Final = {TagState.EXISTS: _KNOWN_S, TagState.MISSING: _MISSING_S, TagState.UNKNOWN: _UNKNOWN_S}
_DOCKER: Final = ".dockerconfigjson"


_Question = tuple[list[str], tuple[str, str], str]


def _question(group: DriverGroup) -> _Question:
    """With what secrets, by what proxy and by whose word a registry is trusted."""
    return pull_secrets(group), registry_proxy(group.policy), group.policy.certificates


class ImageBook:
    """Answers by image, asked again when they are old or the policy says to ask in another way.

    Without a registry nothing is said of any image.
    """

    def __init__(
        self, registry: ImageRegistry | None, api: KubernetesReader, clock: Clock, namespace: str
    ) -> None:
        self._registry = registry
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._answers: dict[str, tuple[float, _Question, ImageAnswer]] = {}

    async def answers(self, groups: Mapping[str, DriverGroup]) -> dict[str, ImageAnswer]:
        """What is known of these images now; those that nobody wants any more are forgotten."""
        if self._registry is None:
            return {}
        now = self._clock.monotonic()
        questions = {image: _question(group) for image, group in groups.items()}
        self._answers = {
            image: (until, question, answer)
            for image, (until, question, answer) in self._answers.items()
            if until > now and questions.get(image) == question
        }
        missing = [image for image in groups if image not in self._answers]
        answers = await asyncio.gather(
            *(self._ask(self._registry, image, groups[image]) for image in missing)
        )
        for image, answer in zip(missing, answers, strict=True):
            self._answers[image] = (now + _LASTS[answer.state], questions[image], answer)
        return {image: answer for image, (_, _, answer) in self._answers.items()}

    async def _ask(self, registry: ImageRegistry, image: str, group: DriverGroup) -> ImageAnswer:
        secrets = []
        for name in pull_secrets(group):
            try:
                secret = await self._api.get(SECRET, name, self._namespace)
                secrets.append(docker_config(secret))
            except ClusterError as error:
                return ImageAnswer(
                    TagState.UNKNOWN, f"pull secret {name} cannot be read: {error.problems[0].what}"
                )
            except ValueError:
                return ImageAnswer(
                    TagState.UNKNOWN, f"pull secret {name} cannot be read: it is not base64 text"
                )
        name = group.policy.certificates
        try:
            authorities = await self._authorities(name) if name else ""
        except ClusterError as error:
            return ImageAnswer(
                TagState.UNKNOWN, f"certConfig {name} cannot be read: {error.problems[0].what}"
            )
        if name and not authorities:
            return ImageAnswer(TagState.UNKNOWN, f"certConfig {name}: no such ConfigMap, or it is empty")
        route = RegistryRoute(*registry_proxy(group.policy), authorities)
        return await registry.ask(image, tuple(secrets), route)

    async def _authorities(self, name: str) -> str:
        """The certificates of a ConfigMap, one after the other; empty where there is none."""
        chosen = f"metadata.name={name}"
        maps = await self._api.list(CONFIG_MAP, namespace=self._namespace, field_selector=chosen)
        return "\n".join(text for config_map in maps.items for _, text in sorted(config_map.data.items()))


def docker_config(secret: Secret) -> str:
    """The logins that a pull secret has, as JSON. Raises ValueError: it is not text in Base64."""
    return base64.b64decode(secret.data.get(_DOCKER, ""), validate=True).decode()
