"""Registries of images, as the controller asks them."""

from __future__ import annotations

from typing import Protocol

from tonnage.model.drivers.images import ImageAnswer, RegistryRoute


class ImageRegistry(Protocol):
    """Says whether images exist."""

    async def ask(self, image: str, pull_secrets: tuple[str, ...], route: RegistryRoute) -> ImageAnswer:
        """Whether an image exists. UNKNOWN where nobody can or may be asked; never raises for that.

        `pull_secrets` are the contents of `.dockerconfigjson` of Secrets.
        """
        ...
