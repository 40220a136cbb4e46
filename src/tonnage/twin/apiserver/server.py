"""The API server as a whole: assembled, started, stopped."""

from __future__ import annotations

import secrets
import uuid
from copy import deepcopy
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

from tonnage.decide.kubernetes.api.strategies.feature_gates import drop_gated
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, FeatureGates
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.admission.chain import default_gates, default_plugins
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey
from tonnage.twin.apiserver.authentication.token_requests import TokenRequests
from tonnage.twin.apiserver.authentication.users import ADMIN, account_user
from tonnage.twin.apiserver.bootstrap import bootstrap, create_known, publish_api, publish_authority
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.in_process_client import LocalKubernetes
from tonnage.twin.apiserver.ownership.field_manager import FieldOwnership
from tonnage.twin.apiserver.rbac.escalation import Escalation
from tonnage.twin.apiserver.rbac.node_restriction import NodeRestriction
from tonnage.twin.apiserver.requests import SYSTEM, User
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.security import Rights, security
from tonnage.twin.apiserver.storage.store import Store
from tonnage.twin.apiserver.verbs import Verbs
from tonnage.twin.apiserver.writing.pipeline import Ids, WritePipeline
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object
from tonnage.wire.schema import load_schema

if TYPE_CHECKING:
    from tonnage.twin.apiserver.serving.connections.listener import HttpsListener
    from tonnage.twin.certificate_authority import CertificateAuthority

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is and what lets one in. The token is a secret."""

    url: str
    ca_pem: bytes
    token: str

    def __repr__(self) -> str:
        return f"Endpoint(url={self.url!r})"


class ApiServer:
    """One cluster's API: `local()` at once, HTTPS between `start` and `stop`."""

    def __init__(
        self,
        clock: Clock,
        *,
        store: Store | None = None,
        random: Random | None = None,
        token_key: TokenKey | None = None,
        audit: AuditLog | None = None,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        """A seeded `random` makes uids and names repeatable.

        `token_key` signs the tokens of service accounts; without one they are good while the server lives.
        `gates` are those of features.
        """
        self.store = store or Store()
        self._clock = clock
        self._random = random or SystemRandom()
        self._gates = gates
        self.registry = Registry(load_schema(), gates)
        rights = Rights(self.store)
        escalation = Escalation(rights.bindings, rights.authority)
        restriction = NodeRestriction(self.store, rights.authority)
        codec = Codec(self.registry)
        ids = Ids(self._uid, self._random)
        built_in = default_plugins(self.store, self.registry, codec, ids.suffix, rights.authority)
        admission = (*built_in, restriction, escalation)
        checks = default_gates(
            self.store, self.registry, codec, FieldOwnership(codec, clock), rights.authority
        )
        pipeline = WritePipeline(self.store, codec, clock, ids, admission, checks)
        key = token_key or TokenKey()
        tokens = TokenRequests(self.store, clock, pipeline, key)
        self._security = security(pipeline, clock, rights, key, audit)
        self.verbs = Verbs(self.store, self.registry, clock, pipeline, tokens, self._security.reviews)
        bootstrap(self.store, clock, self._uid, self.verbs.bring, gates)
        self.verbs.definitions.settle_all()
        self._listener: HttpsListener | None = None

    def local(self, manager: str = "kube-controller-manager", user: User = SYSTEM) -> LocalKubernetes:
        """A client in this process, as whom it owns what it writes, and as which user it does so."""
        follow = self._security.follow_local if self._security.audit is not None else None
        return LocalKubernetes(self.verbs, manager, user, follow)

    def install(self, kind: Kind[Object], body: JsonObject) -> None:
        """Have an object of this package, of a kind without namespaces, as it is but for gated fields.

        Nobody judges it, which for a DeviceClass would load the CEL engine into every cluster.
        """
        resource, gated = (kind.group, kind.plural), deepcopy(body)
        drop_gated(resource, gated, {}, self._gates)
        create_known(self.store, self._clock, self._uid, self.verbs.bring, resource, gated)

    def of_controller(self, account: str, manager: str = "kube-controller-manager") -> LocalKubernetes:
        """A client of one of the controllers, under the service account that it has in kube-system."""
        return self.local(manager, account_user("kube-system", account))

    async def start(
        self,
        authority: CertificateAuthority,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        token: str | None = None,
    ) -> Endpoint:
        """Listen with a certificate of `authority`; port 0 takes a free one.

        Raises:
            ConfigError: the port is in use, or may not be taken.
        """
        from tonnage.twin.apiserver.serving.connections.listener import HttpsListener

        token = token or secrets.token_urlsafe(32)
        self._security.authenticator.let_in({token: ADMIN})
        listener = HttpsListener(self.verbs, self._clock, self._random, authority, self._security)
        bound = await listener.start(host, port)
        self._listener = listener
        publisher = self.store, self._clock, self._uid, self.verbs.bring
        publish_authority(*publisher, authority.certificate_pem.decode())
        publish_api(*publisher, bound)
        await self.store.on_disk()
        shown = f"[{host}]" if ":" in host else host
        return Endpoint(f"https://{shown}:{bound}", authority.certificate_pem, token)

    async def stop(self) -> None:
        """End every watch and stop listening. Objects stay; `start` may follow."""
        self.store.cut_watches()
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None
        await self.store.on_disk()

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
