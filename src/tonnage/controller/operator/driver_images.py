"""What registries say of drivers' images, each asked now and then."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.operate.drivers.daemon_set import pull_secrets
from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.model.drivers.images import ImageAnswer, TagState
from tonnage.model.errors import ClusterError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.ports.registry import ImageRegistry
from tonnage.wire.kinds import SECRET
from tonnage.wire.objects import Secret

_KNOWN_S: Final = 3600.0
_MISSING_S: Final = 60.0
"""An image that is missing may be pushed any time."""
_UNKNOWN_S: Final = 600.0
_LASTS: Final = {TagState.EXISTS: _KNOWN_S, TagState.MISSING: _MISSING_S, TagState.UNKNOWN: _UNKNOWN_S}
_DOCKER: Final = ".dockerconfigjson"


class ImageBook:
    """Answers by image, asked again when they are old. Without a registry nothing is said of any image."""

    def __init__(
        self, registry: ImageRegistry | None, api: KubernetesReader, clock: Clock, namespace: str
    ) -> None:
        self._registry = registry
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._answers: dict[str, tuple[float, ImageAnswer]] = {}

    async def answers(self, groups: Mapping[str, DriverGroup]) -> dict[str, ImageAnswer]:
        """What is known of these images now; those that nobody wants any more are forgotten."""
        if self._registry is None:
            return {}
        now = self._clock.monotonic()
        self._answers = {
            image: (until, answer)
            for image, (until, answer) in self._answers.items()
            if image in groups and until > now
        }
        missing = [image for image in groups if image not in self._answers]
        answers = await asyncio.gather(
            *(self._ask(self._registry, image, groups[image]) for image in missing)
        )
        for image, answer in zip(missing, answers, strict=True):
            self._answers[image] = (now + _LASTS[answer.state], answer)
        return {image: answer for image, (_, answer) in self._answers.items()}

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
        return await registry.ask(image, tuple(secrets))


def docker_config(secret: Secret) -> str:
    """The logins that a pull secret has, as JSON. Raises ValueError: it is not text in Base64."""
    return base64.b64decode(secret.data.get(_DOCKER, ""), validate=True).decode()
