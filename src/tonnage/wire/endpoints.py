"""Where services lead, as Tonnage reads it.

Source: the Kubernetes API, v1.35.
"""

from __future__ import annotations

from typing import Any

from tonnage.wire.objects import Object


class Endpoints(Object):
    subsets: list[dict[str, Any]] | None = None


class EndpointSlice(Object):
    address_type: str = ""
    endpoints: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None
