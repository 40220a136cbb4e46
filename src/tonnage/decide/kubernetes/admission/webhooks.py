"""MutatingAdmissionWebhook, ValidatingAdmissionWebhook: what a new pod would be shown to.

What they say cannot be known; that one is not there can.

Source: k8s.io/apiserver pkg/admission/plugin/webhook, 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.matching import selector_matches
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.policies import Webhook
from tonnage.model.kubernetes.selectors import Labels
from tonnage.model.kubernetes.well_known import NAMESPACE_NAME
from tonnage.model.reasons.pod.admission import WebhookUnreachable

_CREATE: Final = ("CREATE", "*")
_CORE: Final = ("", "*")
_PODS: Final = ("pods", "*", "*/*", "pods/*")


def _unreachable(webhook: Webhook, *, service_missing: bool) -> AdmissionRefusal:
    """A webhook that must be asked and cannot be: its Service does not exist, or no pod is behind it.

    Without a pod behind the Service the server's words depend on the network.
    """
    space, service = webhook.service or ("", "")
    url = f"https://{service}.{space}.svc{webhook.query}"
    error = f'service "{service}" not found' if service_missing else "connect: connection refused"
    named = "/".join(webhook.service or ())
    why = "does not exist" if service_missing else "has no running pod behind it"
    kind = f"{'mutating' if webhook.mutating else 'validating'}webhookconfiguration"
    reason = WebhookUnreachable(
        subject=f"Webhook {webhook.configuration}/{webhook.name}",
        message=f"new pods must be shown to the webhook {webhook.name}, and its Service {named} {why}",
        remedy=f"start what is behind {named}; or, if it is gone for good, kubectl delete {kind} "
        f"{webhook.configuration}; or set its failurePolicy to Ignore",
        source="webhook configurations, Services, Pods",
        webhook=webhook.name,
        configuration=webhook.configuration,
        service=named,
    )
    words = f'failed calling webhook "{webhook.name}": failed to call webhook: Post "{url}": {error}'
    return AdmissionRefusal(words, reason)


def matching_webhooks(pod: Pod, snapshot: Snapshot) -> Iterator[Webhook]:
    """Webhooks to which the pod would be shown, mutating ones first; CEL conditions are left open."""
    labels = _labels_of(pod.namespace, snapshot)
    for webhook in sorted(snapshot.webhooks, key=lambda w: (not w.mutating, w.configuration)):
        if _about_pods(webhook) and _chooses(webhook, labels, pod):
            yield webhook


def unreachable(pod: Pod, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    """Those of them that would refuse the pod because nobody answers."""
    services = {
        (selector.namespace, selector.name): selector
        for selector in snapshot.selectors
        if selector.kind == "Service"
    }
    services_are_complete = "Service" in snapshot.complete or bool(services)
    for webhook in matching_webhooks(pod, snapshot):
        if (
            webhook.service is None
            or not webhook.must_answer
            or webhook.conditional
            or not services_are_complete
        ):
            continue
        service = services.get(webhook.service)
        if service is None:
            yield _unreachable(webhook, service_missing=True)
        elif service.selector.requirements and not any(
            other.namespace == service.namespace
            and other.status.phase == "Running"
            and selector_matches(service.selector, other.labels)
            for other in snapshot.pods
        ):
            yield _unreachable(webhook, service_missing=False)


def _about_pods(webhook: Webhook) -> bool:
    return any(
        any(operation in _CREATE for operation in rule.operations)
        and any(group in _CORE for group in rule.groups)
        and any(resource in _PODS for resource in rule.resources)
        for rule in webhook.rules
    )


def _chooses(webhook: Webhook, labels: Labels, pod: Pod) -> bool:
    return selector_matches(webhook.namespaces, labels) and selector_matches(webhook.objects, pod.labels)


def _labels_of(namespace: str, snapshot: Snapshot) -> Labels:
    return {NAMESPACE_NAME: namespace, **snapshot.namespaces.get(namespace, {})}
