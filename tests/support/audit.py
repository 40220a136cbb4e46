"""What the agents' account asked of a genuine API server, by the server's own audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.rights import Right

POD = "authentication.kubernetes.io/pod-name"


class AuditLog:
    """In `folder`, where both the server and the tests look."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "audit-policy.json"
        self._log = folder / "audit.log"

    def flags(self, account: str) -> list[str]:
        """Flags of an API server that logs what that user asks, and nothing else."""
        rules = [{"level": "Metadata", "users": [account]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        self._policy.write_text(json.dumps({**policy, "omitStages": ["RequestReceived"]}))
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"]

    def of_pod(self, name: str) -> Iterator[tuple[Right, int]]:
        """Every request with the token of that pod, and the status it was answered with."""
        with self._log.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # still being written
                event: dict[str, Any] = json.loads(line)
                if name in event["user"].get("extra", {}).get(POD, ()):
                    yield _right(event), event["responseStatus"]["code"]


def requests_of(log: Path, user: str) -> Iterator[tuple[Right, str]]:
    """Every request of a user that has been answered, and by which role it was allowed; empty: by none.

    What was applied and was not there took the right to create it, too.
    """
    for line in log.read_bytes().splitlines():
        event: dict[str, Any] = json.loads(line)
        if event["user"]["username"] == user:
            right, reason = _right(event), event["annotations"].get("authorization.k8s.io/reason", "")
            yield right, reason
            if right.verb == "patch" and event.get("responseStatus", {}).get("code") == 201:
                yield right._replace(verb="create", name=""), reason


def _right(event: dict[str, Any]) -> Right:
    asked = event.get("objectRef", {})
    resource = "/".join(filter(None, (asked.get("resource", event["requestURI"]), asked.get("subresource"))))
    namespace, name = asked.get("namespace", ""), asked.get("name", "")
    return Right(event["verb"], asked.get("apiGroup", ""), resource, namespace, name)
