"""LimitRanges: what they give, what they refuse, in the server's words."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.admission.limit_ranges import breaches, with_defaults
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"


def manifest(*containers: Body, **spec: Any) -> Manifest:
    parts: Any = [{"name": f"c{i}", "image": "i", "resources": found} for i, found in enumerate(containers)]
    body: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ml"}}
    [found] = manifests_from_documents([{**body, "spec": {"containers": parts, **spec}}])
    return found


def ranges(*items: Body, name: str = "r") -> Snapshot:
    meta = {"name": name, "namespace": "ml"}
    body: Any = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": list(items)}}
    return snapshot_from_documents([{"kind": "List", "items": [body]}])


def said(made: Manifest, *items: Body) -> list[str]:
    found = ranges(*items).limit_ranges
    return [breach.text for breach in breaches(with_defaults(made, found), found)]


@pytest.mark.parametrize(
    ("resources", "item", "text"),
    [
        (
            {"limits": {GPU: "4"}},
            {"type": "Container", "max": {GPU: "2"}},
            "maximum nvidia.com/gpu usage per Container is 2, but limit is 4",
        ),
        (
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
            {"type": "Container", "min": {"cpu": "500m"}},
            "minimum cpu usage per Container is 500m, but request is 100m",
        ),
        (
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 3, but provided ratio is 4.000000",
        ),
        (
            {},
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 3, but no request is specified or request is 0",
        ),
        (
            {"requests": {"cpu": "1"}},
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 3, but no limit is specified or limit is 0",
        ),
        (
            {},
            {"type": "Pod", "max": {"memory": "1Gi"}},
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        (
            {},
            {"type": "Pod", "min": {"memory": "1Gi"}},
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        (
            {"limits": {"memory": "2048Mi"}},
            {"type": "Pod", "max": {"memory": "1Gi"}},
            "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bound_is_told_as_the_server_tells_it(resources: Body, item: Body, text: str) -> None:
    assert said(manifest(resources), item) == [text]


def test_several_breaches_are_listed_once_each() -> None:
    item = {"type": "Container", "max": {GPU: "1"}}
    two = manifest({"limits": {GPU: "2"}}, {"limits": {GPU: "2"}}, {"limits": {GPU: "3"}})
    assert said(two, item) == [
        (
            "[maximum nvidia.com/gpu usage per Container is 1, but limit is 2, "
            "maximum nvidia.com/gpu usage per Container is 1, but limit is 3]"
        )
    ]


def test_a_default_gpu_goes_into_every_container() -> None:
    init = {"name": "i", "image": "i", "restartPolicy": "Always"}
    limits = ranges({"type": "Container", "default": {GPU: "1", "cpu": "2"}, "defaultRequest": {"cpu": "1"}})
    made = with_defaults(manifest({}, {"limits": {GPU: "4"}}, initContainers=[init]), limits.limit_ranges)
    assert [c.limits[GPU] for c in (*made.pod.containers, *made.pod.init_containers)] == [1, 4, 1]
    assert [c.requests["cpu"] for c in made.pod.containers] == [1000, 1000]
    assert made.pod.containers[0].limits["cpu"] == 2000


def test_a_limit_is_a_request_before_any_default_is() -> None:
    limits = ranges({"type": "Container", "default": {"cpu": "4"}, "defaultRequest": {"cpu": "1"}})
    made = with_defaults(manifest({"limits": {"cpu": "2"}}), limits.limit_ranges)
    assert made.pod.containers[0].requests["cpu"] == 2000


def test_a_maximum_is_the_default_where_none_is_set() -> None:
    made = with_defaults(manifest({}), ranges({"type": "Container", "max": {"memory": "1Gi"}}).limit_ranges)
    assert made.amounts[0].limits == {"memory": "1Gi"}


def test_other_namespaces_have_their_own() -> None:
    found = ranges({"type": "Container", "max": {GPU: "1"}, "default": {GPU: "1"}}).limit_ranges
    other = manifest({"limits": {GPU: "2"}})
    elsewhere = with_defaults(other, [])
    assert elsewhere == other
    [made] = manifests_from_documents(
        [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web"}, "spec": {}}]
    )
    assert breaches(made, found) == ()


AT_MOST = {"type": "Pod", "max": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("containers", "whole", "limit"),
    [
        pytest.param(({},), {"limits": {"memory": "8Gi"}}, "8Gi", id="the pod's own amount"),
        pytest.param(({"limits": {"memory": "2Gi"}},), {"limits": {"memory": "3e9"}}, "3e9", id="both"),
        pytest.param(({"requests": {"memory": "2Gi"}, "limits": {"memory": "3e9"}},), {}, "3e9", id="limits"),
    ],
)
def test_a_sum_is_written_as_the_pod_writes_it(containers: tuple[Body, ...], whole: Body, limit: str) -> None:
    more = {"resources": whole} if whole else {}
    told = f"maximum memory usage per Pod is 1Gi, but limit is {limit}"
    assert said(manifest(*containers, **more), AT_MOST) == [told]


@pytest.mark.parametrize(
    ("containers", "whole", "item", "text"),
    [
        pytest.param(
            ({"requests": {"cpu": "4"}}, {"requests": {GPU: "1"}}),
            {},
            {"type": "Container", "default": {"cpu": "1"}},
            '[spec.containers[0].resources.requests: Invalid value: "4": must be less than or equal to cpu '
            "limit of 1, spec.containers[1].resources.limits: Required value: Limit must be set for non "
            "overcommitable resources]",
            id="a default limit below what is asked, beside another fault",
        ),
        pytest.param(
            ({"requests": {"cpu": "1"}}, {}),
            {"limits": {"cpu": "8"}},
            {"type": "Container", "defaultRequest": {"cpu": "500m"}},
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
            "container requests of 1500m",
            id="what the pod asks as a whole is settled before the defaults",
        ),
        pytest.param(
            ({"requests": {GPU: "1"}},),
            {},
            {"type": "Container", "default": {GPU: "1"}},
            "",
            id="a default limit that was missing",
        ),
    ],
)
def test_a_pod_is_validated_with_what_limit_ranges_give(
    containers: tuple[Body, ...], whole: Body, item: Body, text: str
) -> None:
    made = manifest(*containers, **({"resources": whole} if whole else {}))
    explanation = explain_manifest(made, ranges(item))
    assert explanation.upstream_message == (f'Pod "p" is invalid: {text}' if text else "")
