"""The Pod Security Standards: what each level forbids, since when, in the server's words."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.admission.pod_security import violation

Body = dict[str, Any]
LABEL = "pod-security.kubernetes.io/enforce"
SAFE: Body = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def template(*contexts: Body, annotations: Body | None = None, **spec: Any) -> Body:
    parts = [{"name": f"c{i}", "securityContext": found} for i, found in enumerate(contexts)]
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": parts, **spec}}


def said(found: Body, level: str = "baseline", *, minor: int = 35, version: str = "") -> str:
    labels = {LABEL: level, **({f"{LABEL}-version": version} if version else {})}
    broken = violation(found, labels, minor=minor)
    return broken.text.partition(": ")[2] if broken else ""


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (template({}, hostNetwork=True, hostIPC=True), "host namespaces (hostNetwork=true, hostIPC=true)"),
        (
            template({"privileged": True}, {"privileged": True}),
            'privileged (containers "c0", "c1" must not set securityContext.privileged=true)',
        ),
        (
            template({"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}),
            (
                'non-default capabilities (container "c0" must not include "SYS_ADMIN" in '
                "securityContext.capabilities.add)"
            ),
        ),
        (template({}, volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
        (
            {"spec": {"containers": [{"name": "c", "ports": [{"hostPort": 80}, {"hostPort": 443}]}]}},
            'hostPort (container "c" uses hostPorts 443, 80)',
        ),
        (
            template({}, securityContext={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            template({"procMount": "Unmasked"}),
            'procMount (container "c0" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            template({"seLinuxOptions": {"type": "spc_t", "user": "u"}}),
            (
                'seLinuxOptions (container "c0" set forbidden securityContext.seLinuxOptions: type "spc_t"; '
                "user may not be set)"
            ),
        ),
        (
            template({"appArmorProfile": {"type": "Unconfined"}}),
            'forbidden AppArmor profile (container "c0" must not set AppArmor profile type to "Unconfined")',
        ),
        (
            template({}, securityContext={"sysctls": [{"name": "kernel.msgmax"}]}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            template({"windowsOptions": {"hostProcess": True}}),
            'hostProcess (container "c0" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
        (
            {"spec": {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}]}},
            'probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")',
        ),
        (template(SAFE), ""),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_baseline_forbids(found: Body, text: str) -> None:
    assert said(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (template({**SAFE, "runAsUser": 0}), 'runAsUser=0 (container "c0" must not set runAsUser=0)'),
        (
            template({**SAFE, "capabilities": {"drop": ["ALL"], "add": ["SYS_TIME", "NET_BIND_SERVICE"]}}),
            (
                'unrestricted capabilities (container "c0" must not include "SYS_TIME" in '
                "securityContext.capabilities.add)"
            ),
        ),
        (
            template(SAFE, volumes=[{"name": "v", "hostPath": {}}, {"name": "n", "nfs": {}}]),
            'restricted volume types (volumes "v", "n" use restricted volume types "hostPath", "nfs")',
        ),
        (
            template({**SAFE, "runAsNonRoot": False}, securityContext={"runAsNonRoot": False}),
            'runAsNonRoot != true (pod and container "c0" must not set securityContext.runAsNonRoot=false)',
        ),
        (template(SAFE), ""),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_restricted_forbids_more(found: Body, text: str) -> None:
    assert said(found, "restricted") == text


@pytest.mark.parametrize(
    ("minor", "version", "forbidden"),
    [(34, "", True), (35, "", False), (37, "latest", False), (36, "v1.34", True), (34, "v1.99", True)],
)
def test_pods_with_users_of_their_own_may_run_as_root_since_1_35(
    minor: int, version: str, forbidden: bool
) -> None:
    pod_template = template({**SAFE, "runAsNonRoot": None}, hostUsers=False)
    assert bool(said(pod_template, "restricted", minor=minor, version=version)) == forbidden


def test_sysctls_that_later_releases_allow() -> None:
    pod_template = template({}, securityContext={"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat"}]})
    assert said(pod_template, minor=36)
    assert said(pod_template, minor=37) == ""


@pytest.mark.parametrize(
    ("level", "policy"),
    [
        ("privileged", ""),
        ("baseline", "baseline:latest"),
        ("nonsense", "restricted:latest"),
    ],
)
def test_a_level_that_cannot_be_read_is_the_strictest(level: str, policy: str) -> None:
    broken = violation(template({"privileged": True}), {LABEL: level}, minor=35)
    assert (broken.policy if broken else "") == policy


def test_a_namespace_without_the_label_enforces_nothing() -> None:
    assert violation(template({"privileged": True}), {}, minor=35) is None
