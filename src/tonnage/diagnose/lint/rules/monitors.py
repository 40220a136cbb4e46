"""TEL-7: a ServiceMonitor whose endpoint names a port that its Services lack reads nothing, in silence.

Source: prometheus-operator v0.70, pkg/prometheus/promcfg.go (generateServiceMonitorConfig): a relabelling
keeps the port of that name, so that one that no Service has leaves no target.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, is_variable, mapping, mappings, sequence
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject
from tonnage.model.name_lists import listed
from tonnage.model.reasons.lint.manifests import MonitorPortMissing

_GROUP: Final = "monitoring.coreos.com"
_MOST_NAMED: Final = 5


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a ServiceMonitor, where the Services that it selects are among the files."""
    if manifest.group != _GROUP or manifest.kind != "ServiceMonitor":
        return
    spec = mapping(manifest.value.get("spec"))
    services = [body for body in inputs.items if body.kind == "Service" and _selects(manifest, spec, body)]
    if not services:
        return
    ports = sorted({name for service in services for name in _port_names(service)})
    for index, endpoint in mappings(spec.get("endpoints")):
        port = endpoint.get("port")
        if isinstance(port, str) and port not in ports and not is_variable(port):
            at: Path = (*manifest.path, "spec", "endpoints", index, "port")
            yield Draft(_missing(port, ports, services), at)


def _missing(port: str, ports: list[str], services: list[ManifestObject]) -> MonitorPortMissing:
    names = listed([service.name for service in services], _MOST_NAMED)
    return MonitorPortMissing(
        message=f"no Service that it selects has a port named {port[:60]} ({names})",
        remedy=nearest(port, ports) or "give the Service's port that name",
        port=port[:60],
        ports=tuple(ports),
    )


def _selects(manifest: ManifestObject, spec: JsonObject, service: ManifestObject) -> bool:
    """Whether its labels and its namespace are selected. Expressions are not judged: they select nothing."""
    selector = mapping(spec.get("selector"))
    if selector.get("matchExpressions"):
        return False
    where = mapping(spec.get("namespaceSelector"))
    names = sequence(where.get("matchNames")) or [manifest.namespace]
    if not where.get("any") and service.namespace not in names:
        return False
    labels = mapping(mapping(service.value.get("metadata")).get("labels"))
    return mapping(selector.get("matchLabels")).items() <= labels.items()


def _port_names(service: ManifestObject) -> Iterator[str]:
    for _, port in mappings(mapping(service.value.get("spec")).get("ports")):
        name = port.get("name")
        if isinstance(name, str):
            yield name
