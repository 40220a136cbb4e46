"""Pod addresses out of the node's range, handed out in turn as the host-local CNI plugin does."""

from __future__ import annotations

import ipaddress

from tonnage.model.errors import ConfigError, Problem


class PodAddresses:
    """Addresses of one node by pod uid. The first two of the range are the network and its gateway."""

    def __init__(self, pod_cidr: str) -> None:
        """Raises ConfigError when the range is no IPv4 range with room for a pod."""
        try:
            network = ipaddress.IPv4Network(pod_cidr)
        except ValueError as error:
            raise ConfigError(Problem("no pod address range", pod_cidr, str(error))) from None
        if network.num_addresses < 4:
            raise ConfigError(Problem("no room for pods in the address range", pod_cidr, remedy="use a /24"))
        self._network = network
        self._next = 2
        self._by_pod: dict[str, str] = {}

    def take(self, pod_uid: str) -> str | None:
        """The pod's address, the same for every call; None when all are taken."""
        if pod_uid in self._by_pod:
            return self._by_pod[pod_uid]
        used = set(self._by_pod.values())
        usable = self._network.num_addresses - 3
        for step in range(usable):
            address = str(self._network[2 + (self._next - 2 + step) % usable])
            if address not in used:
                self._next = 2 + (self._next - 1 + step) % usable
                self._by_pod[pod_uid] = address
                return address
        return None

    def keep(self, pod_uid: str, address: str) -> None:
        """The pod has this address already (it ran before the kubelet started)."""
        self._by_pod[pod_uid] = address

    def free(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._by_pod.pop(pod_uid, None)
