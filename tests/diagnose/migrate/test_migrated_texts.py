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


ALIASES = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: c
    resources:
"""


@pytest.mark.parametrize(
    ("resources", "after"),
    [
        pytest.param(
            """\
      limits: &r # both
        cpu: 8
        nvidia.com/gpu: 4
      requests: *r
""",
            """\
      limits: &r # both
        cpu: 8
      requests: *r
""",
            id="requests are the limits",
        ),
        pytest.param(
            "      limits: &r {cpu: 8, nvidia.com/gpu: 4}\n      requests: *r\n",
            "      limits: &r {cpu: 8}\n      requests: *r\n",
            id="in braces",
        ),
        pytest.param(
            "      limits: &r\n        nvidia.com/gpu: 4\n      requests: *r\n",
            "",
            id="nothing of them is left",
        ),
        pytest.param(
            """\
      limits: &r
        cpu: 8
        nvidia.com/gpu: 4
      requests:
        <<: *r
        memory: 1Gi
""",
            """\
      limits: &r
        cpu: 8
      requests:
        <<: *r
        memory: 1Gi
""",
            id="a merge",
        ),
    ],
)
def test_an_alias_stays_one_where_both_places_change_alike(resources: str, after: str) -> None:
    text = migrated(ALIASES + resources)
    assert only(text).refusal is None
    assert text.text.endswith(f"    resources:\n      claims:\n      - name: gpu\n{after}")


def test_an_alias_that_other_pods_keep_is_not_changed() -> None:
    """The container beside it has the same text, and is to have another request of the claim."""
    text = migrated(
        ALIASES.replace("resources:", "resources: &r") + "      limits: {nvidia.com/gpu: 1}\n"
        "  - name: d\n    resources: *r\n"
    )
    assert only(text).refusal is not None
    assert text.text == text.sheet.text


def test_pods_of_an_object_that_ask_alike_share_a_template() -> None:
    spec = "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: %d}}}]}"
    groups = "".join(
        f"\n  {name}:\n    template:\n      {spec % n}" for name, n in (("a", 1), ("b", 2), ("c", 1))
    )
    text = migrated(f"apiVersion: example.com/v1\nkind: Group\nmetadata: {{name: g}}\nspec:{groups}\n")
    assert [migration.template for migration in text.migrations] == ["g-gpu", "g-gpu-2", "g-gpu"]
    assert [at_path(body, ("metadata", "name")) for body in text.objects] == ["g-gpu", "g-gpu-2"]
    assert text.text.count("resourceClaimTemplateName: g-gpu}") == 2


def test_pods_that_are_an_alias_of_others_ask_alike() -> None:
    text = migrated(
        """\
        apiVersion: example.com/v1
        kind: Group
        metadata: {name: g}
        spec:
          a:
            template: &t
              spec:
                containers:
                - name: c
                  resources: {limits: {nvidia.com/gpu: 1}}
          b:
            template: *t
        """
    )
    assert [migration.refusal for migration in text.migrations] == [None, None]
    assert text.text.count("resourceClaimTemplateName: g-gpu\n") == 1
    assert "template: *t" in text.text


@pytest.mark.parametrize(
    ("params", "after"),
    [
        ("rayStartParams: {}", 'rayStartParams: {num-gpus: "2"}'),
        ("rayStartParams: {block: 'true'}", 'rayStartParams: {block: "true", num-gpus: "2"}'),
        ("rayStartParams:", 'rayStartParams: {num-gpus: "2"}'),
        ("rayStartParams: null # none", 'rayStartParams: {num-gpus: "2"} # none'),
        ("groupName: g", 'rayStartParams:\n      num-gpus: "2"\n    groupName: g'),
        ("rayStartParams: {num-gpus: '1'}", "rayStartParams: {num-gpus: '1'}"),
    ],
)
def test_ray_is_told_its_gpus_which_kuberay_counts_by_limits(params: str, after: str) -> None:
    head = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: r}\nspec:\n  workerGroupSpecs:\n"
    spec = "spec: {containers: [{name: w, resources: {limits: {nvidia.com/gpu: 2}}}]}"
    text = migrated(f"{head}  - {params}\n    template:\n      {spec}\n")
    assert only(text).refusal is None
    assert after in text.text.replace("  - rayStart", "    rayStart").replace("- groupName", "  groupName")
    assert any("num-gpus" in note for note in only(text).notes) == ("'1'" not in params)


def test_a_list_that_is_null_is_written() -> None:
    text = migrated(
        """\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
          - name: c
            resources:
              claims: # none yet
              limits: {nvidia.com/gpu: 1}
          resourceClaims: null
        """
    )
    assert only(text).refusal is None
    assert "claims: [{name: gpu}] # none yet" in text.text
    assert "resourceClaims: [{name: gpu, resourceClaimTemplateName: p-gpu}]" in text.text


def test_a_pod_of_ray_that_is_of_no_group_has_no_start_parameters() -> None:
    """The submitter of a RayJob is no member of its cluster."""
    head = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: r}\nspec:\n  submitterPodTemplate:\n"
    text = migrated(
        f"{head}    spec: {{containers: [{{name: s, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}\n"
    )
    assert only(text).refusal is None
    assert "resourceClaims" in text.text
    assert "rayStartParams" not in text.text
    assert not any("num-gpus" in note for note in only(text).notes)


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
