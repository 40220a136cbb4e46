"""Warnings about services, ingresses, network policies: mostly about odd spellings of addresses.

Source: pkg/api/service/warnings.go, pkg/registry/{networking},
apimachinery's util/validation/ip.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from tonnage.decide.kubernetes.api.validation.network.addresses import parsed, parsed_range
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, items, mapping, mappings, text, texts
from tonnage.model.kubernetes.well_known import OLD_INGRESS_CLASS, TOPOLOGY_HINTS, TOPOLOGY_MODE

_LATER: Final = "will be considered invalid in a future Kubernetes release"


def odd_address(shown: str, path: str) -> Iterator[str]:
    """An address that is spelt as old fields allow.

    >>> list(odd_address("010.1.2.3", "ip"))[0].endswith('in a future Kubernetes release: use "10.1.2.3"')
    True
    """
    address = parsed(shown)
    if address is None:
        return
    mapped = isinstance(address, IPv6Address) and address.ipv4_mapped
    if mapped or _is_padded(shown):
        yield f'{path}: non-standard IP address "{shown}" {_LATER}: use "{mapped or address}"'
    elif address.version == 6 and str(address) != shown:
        yield f'{path}: IPv6 address "{shown}" should be in RFC 5952 canonical format ("{address}")'


def _is_padded(shown: str) -> bool:
    try:
        ip_address(shown)
    except ValueError:
        return True
    return False


def odd_range(shown: str, path: str) -> Iterator[str]:
    """A range of addresses that is spelt as old fields allow."""
    network = parsed_range(shown)
    if network is None:
        return
    address, _, length = shown.partition("/")
    first = parsed(address)
    if first != network.network_address:
        meant = f'should be "{network}" or "{first}/{network.max_prefixlen}"?'
        yield f'{path}: CIDR value "{shown}" is ambiguous in this context ({meant})'
    if _is_padded(address) or length != str(int(length)):
        yield f'{path}: non-standard CIDR value "{shown}" {_LATER}: use "{network}"'
    elif first == network.network_address and network.version == 6 and str(ip_network(shown)) != shown:
        yield f'{path}: IPv6 CIDR value "{shown}" should be in RFC 5952 canonical format ("{network}")'


def service(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    """A Service."""
    spec = mapping(obj, "spec")
    if at(obj, "metadata", "annotations", TOPOLOGY_HINTS) is not None:
        yield f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
    kind = text(spec, "type")
    yield from _addresses(
        [address for address in texts(spec, "clusterIPs") if address != "None"], "spec.clusterIPs"
    )
    if kind == "ClusterIP" and text(spec, "clusterIP") == "None":
        if text(spec, "loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if items(spec, "externalIPs"):
            yield "spec.externalIPs is ignored for headless services"
        if text(spec, "sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    yield from _addresses(texts(spec, "externalIPs"), "spec.externalIPs")
    if shown := text(spec, "loadBalancerIP"):
        yield from odd_address(shown, "spec.loadBalancerIP")
    for index, shown in enumerate(texts(spec, "loadBalancerSourceRanges")):
        yield from odd_range(shown, f"spec.loadBalancerSourceRanges[{index}]")
    if kind == "ExternalName" and items(spec, "externalIPs"):
        yield f'spec.externalIPs is ignored when spec.type is "{kind}"'
    if kind != "ExternalName" and text(spec, "externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if text(spec, "trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _addresses(addresses: list[str], path: str) -> Iterator[str]:
    for index, shown in enumerate(addresses):
        yield from odd_address(shown, f"{path}[{index}]")


def load_balancer(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    """The status of a Service or an Ingress."""
    for index, ingress in enumerate(mappings(obj, "status", "loadBalancer", "ingress")):
        if shown := text(ingress, "ip"):
            yield from odd_address(shown, f"status.loadBalancer.ingress[{index}]")


def ingress(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """A new Ingress."""
    annotated = at(obj, "metadata", "annotations", OLD_INGRESS_CLASS) is not None
    if old is None and annotated and at(obj, "spec", "ingressClassName") is None:
        yield f"annotation \"{OLD_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def network_policy(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    """A NetworkPolicy."""
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(mappings(obj, "spec", way)):
            for place, peer in enumerate(mappings(rule, peers)):
                block, path = mapping(peer, "ipBlock"), f"spec.{way}[{index}].{peers}[{place}].ipBlock"
                yield from odd_range(text(block, "cidr"), f"{path}.cidr")
                for position, shown in enumerate(texts(block, "except")):
                    yield from odd_range(shown, f"{path}.except[{position}]")


def pod_addresses(pod: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    """The status of a pod."""
    for key in ("podIPs", "hostIPs"):
        for index, entry in enumerate(mappings(pod, "status", key)):
            yield from odd_address(text(entry, "ip"), f"status.{key}[{index}].ip")
