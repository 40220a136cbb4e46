"""APIServices: what serves a group's version.

Source: k8s.io/kube-aggregator pkg/apis/apiregistration/validation (v1.35).
"""

from __future__ import annotations

import base64
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, mappings, number, text
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found

_HIGHEST_GROUP: Final = 20000
_HIGHEST_VERSION: Final = 1000
_STATES: Final = ("True", "False", "Unknown")


def api_service(obj: JsonObject) -> Found:
    """An APIService, whose name is its version and its group."""
    spec = mapping(obj, "spec")
    group, version = text(spec, "group"), text(spec, "version")
    wanted = f"{version}.{group}"
    for key in ("generateName", "name"):
        name = text(obj, "metadata", key)
        if name not in ("", wanted) and not names.path_segment(name):
            yield invalid(f"metadata.{key}", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')
    if not group and version != "v1":
        yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if group:
        yield from complaints("spec.group", group, names.dns_subdomain(group))
    yield from complaints("spec.version", version, names.dns_label_1035(version))
    for key, highest in (("groupPriorityMinimum", _HIGHEST_GROUP), ("versionPriority", _HIGHEST_VERSION)):
        if not 0 < (found := number(spec, key)) <= highest:
            yield invalid(f"spec.{key}", found, f"must be positive and less than {highest}")
    yield from _service(spec)


def _service(spec: JsonObject) -> Found:
    bundle, skips = base64.b64decode(text(spec, "caBundle")), flag(spec, "insecureSkipTLSVerify")
    service = spec.get("service")
    if service is None:
        if bundle:
            yield invalid(
                "spec.caBundle", f"{len(bundle)} bytes", "local APIServices may not have a caBundle"
            )
        if skips:
            words = "local APIServices may not have insecureSkipTLSVerify"
            yield invalid("spec.insecureSkipTLSVerify", True, words)
        return
    for key in ("namespace", "name"):
        if not text(service, key):
            yield required(f"spec.service.{key}")
    port = number(service, "port")
    if wrong := names.port_number(port):
        yield invalid("spec.service.port", port, f"port is not valid: {', '.join(wrong)}")
    if skips and bundle:
        yield invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def api_service_status(obj: JsonObject, _old: JsonObject) -> Found:
    """The states of conditions."""
    for index, one in enumerate(mappings(obj, "status", "conditions")):
        if (state := text(one, "status")) not in _STATES:
            yield unsupported(f"status.conditions[{index}].status", state, _STATES)
