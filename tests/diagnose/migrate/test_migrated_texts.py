"""Texts with pods that are migrated to claims: what stands in them afterwards, and which stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.claim_migrations import PRODUCTS, migrated, only
from tonnage.diagnose.lint.manifest_objects import at_path
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.migrate.migrated_texts import migrated_texts


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        pytest.param(
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers":'
            ' [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}',
            "the file is JSON",
            id="JSON",
        ),
        pytest.param(
            """\
            apiVersion: v1
            kind: Pod
            metadata: {name: a}
            spec:
              containers:
              - name: c
                resources: &r {limits: {nvidia.com/gpu: 1}}
              - name: d
                resources: *r
            """,
            "an alias or a merge",
            id="an alias",
        ),
        pytest.param(
            """\
            apiVersion: v1
            kind: Pod
            metadata: {name: a}
            spec:
              containers:
              - name: c
                resources: {limits: {nvidia.com/gpu: 1,  # one
                                     cpu: 1}}
            """,
            "a comment within braces",
            id="a comment in braces",
        ),
    ],
)
def test_a_text_that_cannot_be_edited_stays_as_it_is(manifest: str, why: str) -> None:
    text = migrated(manifest)
    refusal = only(text).refusal
    assert refusal is not None
    assert why in refusal.message
    assert text.text == text.sheet.text
    assert text.objects == ()


def test_pods_of_the_same_class_make_it_once() -> None:
    written = """\
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {nvidia.com/gpu.product: Tesla-T4}
  containers:
  - resources: {limits: {nvidia.com/gpu: 1}}
"""
    text = migrated(written % "a" + "---\n" + written % "b")
    kinds = [(body["kind"], at_path(body, ("metadata", "name"))) for body in text.objects]
    assert kinds == [
        ("DeviceClass", "gpu-tesla-t4"),
        ("ResourceClaimTemplate", "a-gpu"),
        ("ResourceClaimTemplate", "b-gpu"),
    ]


def test_the_lab_applies_what_the_command_writes() -> None:
    folder = Path(__file__).parents[3] / "labs" / "dra-migrate"
    written = (folder / "evaluate.yaml").read_text()
    (answer,) = migrated_texts([Sheet("evaluate.yaml", written)], "default", PRODUCTS)
    assert answer.text == (folder / "evaluate-migrated.yaml").read_text()
