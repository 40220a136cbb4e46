"""Labels Secrets that hold a service account's token with the day when somebody last came in with it.

Source: pkg/serviceaccount/legacy.go of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tonnage.model.json_access import copied, put, text
from tonnage.ports import Clock
from tonnage.twin.apiserver.authentication.users import API_SERVER
from tonnage.twin.apiserver.ownership.tracking import put_entries
from tonnage.twin.apiserver.pipeline import Pipeline
from tonnage.twin.apiserver.requests import Options, Request
from tonnage.twin.apiserver.storage.store import Stored

LAST_USED: Final = "kubernetes.io/legacy-token-last-used"


class TokenUse:
    """Writes the day, once a day."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline = pipeline
        self._clock = clock

    def note(self, holder: Stored) -> None:
        """Say that the token in this Secret has just been used."""
        now = self._clock.now()
        today, tomorrow = (day.date().isoformat() for day in (now, now + timedelta(days=1)))
        if text(holder.object, "metadata", "labels", LAST_USED) in (today, tomorrow):
            return
        secrets = self._pipeline.codec.registry.find("", "v1", "secrets")
        assert secrets is not None
        namespace, name = (text(holder.object, "metadata", key) for key in ("namespace", "name"))
        options = Options(field_manager="kube-apiserver")
        request = Request("patch", secrets, namespace, name, options=options, user=API_SERVER)
        obj = copied(holder.object)
        put(obj, today, "metadata", "labels", LAST_USED)
        put_entries(obj, self._pipeline.ownership.updated(request, obj, holder.object, None))
        self._pipeline.store.update(request.resource, request.key, obj, read=holder)
