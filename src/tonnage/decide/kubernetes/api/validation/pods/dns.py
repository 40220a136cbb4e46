"""By what names a pod knows others and is known: its host name, and how it asks for others.

Source: pkg/apis/core/validation (validatePodDNSConfig, ValidateHostAliases, validatePodHostName), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import complaints, forbidden, invalid, required, too_long
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.network.addresses import legacy_address
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mapping, mappings, text, texts

_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCHES: Final = 2048
_LONGEST_HOST_NAME: Final = 64


def dns_config(spec: JsonObject, path: str) -> FieldErrors:
    """How a pod asks for names, beside its policy."""
    config = mapping(spec, "dnsConfig")
    servers, searches = texts(config, "nameservers"), texts(config, "searches")
    if text(spec, "dnsPolicy") == "None" and not servers:
        if not isinstance(spec.get("dnsConfig"), dict):
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        else:
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", words)
        return
    if len(servers) > _MOST_SERVERS:
        words = f"must not have more than {_MOST_SERVERS} nameservers"
        yield invalid(f"{path}.nameservers", list(servers), words)
    for index, server in enumerate(servers):
        yield from legacy_address(server, f"{path}.nameservers[{index}]")
    if len(searches) > _MOST_SEARCHES:
        words = f"must not have more than {_MOST_SEARCHES} search paths"
        yield invalid(f"{path}.searches", list(searches), words)
    if len(" ".join(searches).encode()) > _LONGEST_SEARCHES:
        words = (
            f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        )
        yield invalid(f"{path}.searches", list(searches), words)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            yield from complaints(f"{path}.searches[{index}]", name, names.searched_domain(name))
    for index, option in enumerate(mappings(config, "options")):
        if not text(option, "name"):
            yield required(f"{path}.options[{index}]", "must not be empty")


def host_aliases(spec: JsonObject, path: str) -> FieldErrors:
    """Lines of the file of hosts."""
    for index, alias in enumerate(mappings(spec, "hostAliases")):
        yield from legacy_address(text(alias, "ip"), f"{path}[{index}].ip")
        for place, name in enumerate(texts(alias, "hostnames")):
            yield from complaints(f"{path}[{index}].hostnames[{place}]", name, names.dns_subdomain(name))


def host_name(spec: JsonObject, path: str) -> FieldErrors:
    """A host name that overrides every other."""
    if spec.get("hostnameOverride") is None:
        return
    name, where = text(spec, "hostnameOverride"), f"{path}.hostnameOverride"
    for key in ("setHostnameAsFQDN", "hostNetwork"):
        if flag(spec, key):
            yield forbidden(where, f"may not be specified when {key} is true")
    if len(name.encode()) > _LONGEST_HOST_NAME:
        yield too_long(where, _LONGEST_HOST_NAME)
    yield from complaints(where, name, names.dns_subdomain(name))
