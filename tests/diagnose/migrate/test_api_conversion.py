"""Objects of older versions of resource.k8s.io in the form of v1, with their comments."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.migrate.api_conversion import ConvertedText, converted_text, in_v1


def converted(text: str) -> ConvertedText:
    return converted_text(Sheet("claims.yaml", dedent(text)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """\
            # of the team
            apiVersion: resource.k8s.io/v1beta1
            kind: ResourceClaimTemplate
            metadata: {name: t}
            spec:
              spec:
                devices:
                  requests:
                  - name: gpu   # a big one
                    deviceClassName: gpu.nvidia.com   # of this class
                    selectors:
                    - cel: {expression: "true"}
                  - {name: b, deviceClassName: c, count: 2}
                  - name: f
                    firstAvailable:
                    - {name: x, deviceClassName: c}
            """,
            """\
            # of the team
            apiVersion: resource.k8s.io/v1
            kind: ResourceClaimTemplate
            metadata: {name: t}
            spec:
              spec:
                devices:
                  requests:
                  - name: gpu   # a big one
                    exactly:
                      deviceClassName: gpu.nvidia.com   # of this class
                      selectors:
                      - cel: {expression: "true"}
                  - {name: b, exactly: {deviceClassName: c, count: 2}}
                  - name: f
                    firstAvailable:
                    - {name: x, deviceClassName: c}
            """,
            id="requests of v1beta1",
        ),
        pytest.param(
            """\
            apiVersion: resource.k8s.io/v1beta1
            kind: ResourceSlice
            metadata: {name: s}
            spec:
              allNodes: false
              nodeName: a   # here
              devices:
              - name: gpu-0
                basic:
                  attributes:
                    # what it is
                    type: {string: gpu}
                  capacity:
                    memory: {value: 80Gi}
              - name: gpu-1   # another
                basic: {attributes: {}, capacity: {memory: {value: 80Gi}}}
              - {name: gpu-2, basic: {capacity: {memory: {value: 80Gi}}}}
            """,
            """\
            apiVersion: resource.k8s.io/v1
            kind: ResourceSlice
            metadata: {name: s}
            spec:
              nodeName: a   # here
              devices:
              - name: gpu-0
                attributes:
                  # what it is
                  type: {string: gpu}
                capacity:
                  memory: {value: 80Gi}
              - name: gpu-1   # another
                attributes: {}
                capacity: {memory: {value: 80Gi}}
              - {name: gpu-2, capacity: {memory: {value: 80Gi}}}
            """,
            id="devices of v1beta1",
        ),
        pytest.param(
            """\
            apiVersion: v1
            kind: List
            items:
            - apiVersion: resource.k8s.io/v1beta2   # of 1.33
              kind: DeviceClass
              metadata: {name: c}
            - apiVersion: resource.k8s.io/v1beta1
              kind: ResourceClaim
              metadata: {name: c}
              spec:
                devices:
                  requests:
                  - name: gpu
                    deviceClassName: c
            """,
            """\
            apiVersion: v1
            kind: List
            items:
            - apiVersion: resource.k8s.io/v1   # of 1.33
              kind: DeviceClass
              metadata: {name: c}
            - apiVersion: resource.k8s.io/v1
              kind: ResourceClaim
              metadata: {name: c}
              spec:
                devices:
                  requests:
                  - name: gpu
                    exactly:
                      deviceClassName: c
            """,
            id="a List of both",
        ),
    ],
)
def test_the_text_keeps_comments_and_order(before: str, after: str) -> None:
    text = converted(before)
    assert text.text == dedent(after)
    assert not any(part.refusal or part.anew for part in text.objects)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """\
            apiVersion: resource.k8s.io/v1beta1
            kind: ResourceClaim
            metadata: &m {name: c}
            spec:
              devices:
                requests:
                - &r
                  name: a
                  deviceClassName: c
                - *r
            """,
            id="an alias",
        ),
        pytest.param(
            """\
            apiVersion: resource.k8s.io/v1beta1
            kind: ResourceSlice
            spec:
              devices:
              - basic:
                  capacity: {memory: {value: 1}}
                name: a
            """,
            id="basic behind the dash",
        ),
    ],
)
def test_what_cannot_be_edited_is_written_anew_with_the_same_meaning(text: str) -> None:
    answer = converted(text)
    assert [part.anew for part in answer.objects] == [True]
    assert yaml.load(answer.text, yaml.CSafeLoader) == in_v1(yaml.load(dedent(text), yaml.CSafeLoader))


def test_json_stays_json() -> None:
    request = {"name": "gpu", "deviceClassName": "c"}
    body: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [request]}},
    }
    assert json.loads(converted(json.dumps(body)).text) == in_v1(body)


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        pytest.param("v1alpha3", "DeviceTaintRule", "in v1 from Kubernetes 1.37 on", id="a taint rule"),
        pytest.param("v1alpha2", "ResourceClaim", "v1alpha2 is not known here", id="an alpha version"),
    ],
)
def test_what_is_not_converted_stays_and_says_why(version: str, kind: str, why: str) -> None:
    text = converted(f"apiVersion: resource.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    assert text.text == text.sheet.text
    [part] = text.objects
    assert part.refusal is not None
    assert why in part.refusal.message
    assert (part.refusal.version, part.refusal.kind) == (f"resource.k8s.io/{version}", kind)


@pytest.mark.parametrize("version", ["resource.k8s.io/v1", "v1", "apps/v1"])
def test_what_is_of_no_older_version_is_left_alone(version: str) -> None:
    text = converted(f"apiVersion: {version}\nkind: ResourceClaim\nmetadata: {{name: a}}\n")
    assert (text.objects, text.text) == ((), text.sheet.text)
