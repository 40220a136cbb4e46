"""DRA-4: manifests that count GPUs, migrated to claims: what is written, as text and as a patch."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml

from support.claim_migrations import migrated, only, pod, terms
from tonnage.diagnose.migrate.text_changes import changed

DRIVER = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"

A100 = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-80GB'"

T4 = "device.attributes['gpu.nvidia.com'].productName == 'Tesla T4'"

OVER_40G = "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40000Mi'))"

OTHER_TERM = "\n      - matchExpressions:\n        - "


def test_product_and_memory_move_into_a_class_and_all_else_stays_to_the_letter() -> None:
    before = """\
        # Trains the model.
        apiVersion: v1
        kind: Pod
        metadata:
          name: train
          namespace: ml  # of the team
        spec:
          restartPolicy: Never
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-A100-SXM4-80GB]}
                  - key: zone    # near the data
                    operator: In
                    values: [a]
                  - key: nvidia.com/gpu.memory
                    operator: Gt
                    values: ["40000"]
          containers:
          - name: main
            image: train:v1   # large
            resources:
              limits:
                cpu: 2
                nvidia.com/gpu: 2
        """
    after = """\
        # Trains the model.
        apiVersion: v1
        kind: Pod
        metadata:
          name: train
          namespace: ml  # of the team
        spec:
          resourceClaims:
          - name: gpu
            resourceClaimTemplateName: train-gpu
          restartPolicy: Never
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - key: zone    # near the data
                    operator: In
                    values: [a]
          containers:
          - name: main
            image: train:v1   # large
            resources:
              claims:
              - name: gpu
              limits:
                cpu: 2
        """
    text = migrated(before)
    *objects, pod_text = text.text.split("---\n")
    assert pod_text == dedent(after)
    cls, template = map(yaml.safe_load, objects)
    assert [s["cel"]["expression"] for s in cls["spec"]["selectors"]] == [DRIVER, A100, OVER_40G]
    assert template["metadata"] == {"name": "train-gpu", "namespace": "ml"}
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": cls["metadata"]["name"], "count": 2}}
    ]


@pytest.mark.parametrize(
    ("spec", "clauses"),
    [
        pytest.param("", [], id="no label: the driver's own class"),
        pytest.param("nodeSelector: {nvidia.com/gpu.product: Tesla-T4}", [T4], id="a nodeSelector"),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: In, values: [Tesla-T4, NVIDIA-A100-SXM4-80GB]}"),
            ["device.attributes['gpu.nvidia.com'].productName in ['Tesla T4', 'NVIDIA A100-SXM4-80GB']"],
            id="one of two products",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: NotIn, values: [Tesla-T4]}"),
            ["device.attributes['gpu.nvidia.com'].productName != 'Tesla T4'"],
            id="not a product",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-Z9]}"),
            ["device.attributes['gpu.nvidia.com'].productName.replace(' ', '-') == 'NVIDIA-Z9'"],
            id="a product that nobody knows, by the label's spelling",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.memory, operator: Lt, values: ['20000']}"),
            ["device.capacity['gpu.nvidia.com'].memory.isLessThan(quantity('20000Mi'))"],
            id="less memory",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.compute.major, operator: Gt, values: ['7']}"),
            ["device.attributes['gpu.nvidia.com'].cudaComputeCapability.major() > 7"],
            id="compute capability",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.family, operator: In, values: [ada-lovelace]}"),
            ["device.attributes['gpu.nvidia.com'].architecture == 'Ada Lovelace'"],
            id="a family",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: Exists}"), [], id="any product: every GPU has one"
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: In, values: [Tesla-T4]}")
            + OTHER_TERM
            + "{key: nvidia.com/gpu.memory, operator: Gt, values: ['40000']}",
            [f"({T4} || {OVER_40G})"],
            id="two terms of which one must hold",
        ),
    ],
)
def test_what_labels_say_of_a_gpu_becomes_a_selector(spec: str, clauses: list[str]) -> None:
    text = pod(spec)
    migration = only(text)
    assert migration.refusal is None
    assert list(migration.class_selectors) == ([DRIVER, *clauses] if clauses else [])
    left = yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)["spec"]
    assert not {"affinity", "nodeSelector"} & left.keys()


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: DoesNotExist}"), "stays with", id="no product"
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: NotIn, values: [Tesla-T4-SHARED]}"),
            "nvidia.com/gpu.product (NotIn) stays with the node's labels",
            id="no shared product",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: In, values: [Tesla-T4]}")
            + OTHER_TERM
            + "{key: zone, operator: In, values: [a]}",
            "the node affinity stays",
            id="terms of which one says nothing of a GPU",
        ),
        pytest.param(
            """\
            affinity:
              nodeAffinity:
                preferredDuringSchedulingIgnoredDuringExecution:
                - weight: 1
                  preference:
                    matchExpressions:
                    - {key: nvidia.com/gpu.product, operator: In, values: [Tesla-T4]}
            """,
            "preferred node affinity stays",
            id="a preference",
        ),
    ],
)
def test_what_a_claim_cannot_say_stays_and_is_noted(spec: str, note: str) -> None:
    text = pod(spec)
    assert any(note in line for line in only(text).notes)
    assert only(text).class_selectors == ()
    assert "affinity" in yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)["spec"]


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        pytest.param("{limits: {nvidia.com/gpu.shared: 1}}", "is a share of a GPU", id="a share"),
        pytest.param("{limits: {amd.com/gpu: 1}}", "of a vendor", id="another vendor"),
        pytest.param("{limits: {nvidia.com/gpu: 64}}", "64 of nvidia.com/gpu is not 1 to 32", id="too many"),
        pytest.param("{limits: {nvidia.com/gpu: x}}", "x of nvidia.com/gpu is not 1 to 32", id="no number"),
    ],
)
def test_what_cannot_be_claimed_stays_as_it_is(resources: str, why: str) -> None:
    text = pod("", resources)
    refusal = only(text).refusal
    assert refusal is not None
    assert why in refusal.message
    assert text.text == text.sheet.text


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(
            "nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb}",
            "by nvidia.com/gpu.product, a MIG device; ask for nvidia.com/mig-1g.5gb",
            id="MIG devices under the name of GPUs",
        ),
        pytest.param(
            terms("{key: nvidia.com/gpu.product, operator: In, values: [Tesla-T4, Tesla-T4-SHARED]}"),
            "by nvidia.com/gpu.product, a share of a GPU",
            id="a shared product",
        ),
        pytest.param(
            "nodeSelector: {nvidia.com/gpu.sharing-strategy: time-slicing}",
            "by nvidia.com/gpu.sharing-strategy, a share of a GPU",
            id="a way of sharing",
        ),
    ],
)
def test_a_part_of_a_gpu_under_the_name_of_whole_ones_becomes_no_claim_of_a_whole_one(
    spec: str, why: str
) -> None:
    text = pod(spec)
    refusal = only(text).refusal
    assert refusal is not None
    assert why in refusal.message
    assert not only(text).changes


@pytest.mark.parametrize("key", ["resources", "resourcesPerNode"])
def test_a_kind_without_pods_spec_of_its_own_is_not_said_to_ask_for_nothing(key: str) -> None:
    text = migrated(
        f"""\
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {{name: llm}}
        spec:
          predictor:
            model:
              modelFormat: {{name: huggingface}}
              {key}: {{limits: {{nvidia.com/gpu: "1"}}}}
        """
    )
    refusal = only(text).refusal
    assert refusal is not None
    assert f"nvidia.com/gpu is asked for in spec.predictor.model.{key}, which is no pod's spec" in (
        refusal.message
    )


def test_a_zero_asks_for_nothing_and_stays() -> None:
    text = migrated(
        """\
        apiVersion: v1
        kind: Pod
        metadata: {name: a}
        spec:
          containers:
          - name: gpu
            resources: {limits: {nvidia.com/gpu: 1, nvidia.com/mig-1g.5gb: 0}}
          - name: none
            resources:
              limits: {nvidia.com/gpu: "0"}
        """
    )
    assert [request.to_json() for request in only(text).requests] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    ]
    first, other = yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)["spec"]["containers"]
    assert first["resources"] == {"claims": [{"name": "gpu"}], "limits": {"nvidia.com/mig-1g.5gb": 0}}
    assert other["resources"] == {"limits": {"nvidia.com/gpu": "0"}}


def test_the_memory_that_a_nodes_label_says_is_not_that_of_its_mig_devices() -> None:
    spec = terms(
        "{key: nvidia.com/gpu.memory, operator: Gt, values: ['40000']}",
        "{key: nvidia.com/gpu.family, operator: In, values: [ampere]}",
    )
    migration = only(pod(spec, "{limits: {nvidia.com/mig-1g.5gb: 1}}"))
    assert "the requirement on nvidia.com/gpu.memory (Gt) stays with the node's labels" in migration.notes
    assert [text for text in migration.class_selectors if "memory" in text] == []
    assert any("'Ampere'" in text for text in migration.class_selectors)


def test_a_mig_resource_becomes_a_profile() -> None:
    text = pod("", '{limits: {"nvidia.com/mig-1g.10gb.me": 2}}')
    (request,) = only(text).requests
    assert request.to_json() == {
        "name": "gpu",
        "exactly": {
            "deviceClassName": "mig.nvidia.com",
            "count": 2,
            "selectors": [
                {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '1g.10gb+me'"}}
            ],
        },
    }


def test_whole_gpus_and_mig_devices_are_requests_of_one_claim() -> None:
    text = pod("", "{limits: {nvidia.com/gpu: 2, nvidia.com/mig-1g.10gb: 1}}")
    migration = only(text)
    assert [(request.name, request.device_class, request.count) for request in migration.requests] == [
        ("gpu", "gpu.nvidia.com", 2),
        ("gpu-2", "mig.nvidia.com", 1),
    ]
    assert [request.selectors for request in migration.requests] == [(), (PROFILE,)]
    spec = yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)["spec"]
    assert spec["containers"] == [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}]


def test_with_labels_one_class_has_both_and_each_request_says_its_type_before_its_profile() -> None:
    """Whole GPUs have no profile: a selector that reads one fails on them."""
    text = pod(
        "nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}",
        "{limits: {nvidia.com/gpu: 1, nvidia.com/mig-1g.10gb: 1}}",
    )
    migration = only(text)
    assert migration.class_selectors == ("device.driver == 'gpu.nvidia.com'", A100)
    kinds = [f"device.attributes['gpu.nvidia.com'].type == '{kind}'" for kind in ("gpu", "mig")]
    assert [request.selectors for request in migration.requests] == [(kinds[0],), (kinds[1], PROFILE)]
    assert len({request.device_class for request in migration.requests}) == 1


def test_containers_with_a_kind_each_have_their_own_request() -> None:
    text = migrated(MIXED)
    spec = yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)["spec"]
    claims = {c["name"]: c["resources"]["claims"] for c in spec["containers"]}
    assert claims == {
        "train": [{"name": "gpu", "request": "train"}],
        "serve": [{"name": "gpu", "request": "serve"}, {"name": "gpu", "request": "serve-2"}],
    }
    assert [request.profile for request in only(text).requests] == ["", "1g.10gb", "2g.20gb"]
    document = yaml.load(MIXED, yaml.CSafeLoader)
    assert changed(document, only(text).changes) == yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)


PROFILE = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"
MIXED = """\
apiVersion: v1
kind: Pod
metadata: {name: both}
spec:
  containers:
  - name: train
    resources: {limits: {nvidia.com/gpu: 1}}
  - name: serve
    resources:
      limits:
        nvidia.com/mig-1g.10gb: 1
        nvidia.com/mig-2g.20gb: 1
"""

CONTAINERS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      resourceClaims:
      - name: gpu   # an earlier one
        resourceClaimName: other
      initContainers:
      - name: warm
        resources: {limits: {nvidia.com/gpu: 1}}
      - name: sidecar
        restartPolicy: Always
        resources: {limits: {nvidia.com/gpu: 1}}
      containers:
      - name: main
        resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 2, cpu: 1}}
      - resources:
          limits:
            nvidia.com/gpu: 1
          claims:
          - name: gpu
        name: B.side
      - name: log
"""


def test_each_container_has_a_request_and_an_init_container_uses_anothers() -> None:
    text = migrated(CONTAINERS)
    migration = only(text)
    assert [(request.name, request.count) for request in migration.requests] == [
        ("main", 2),
        ("b-side", 1),
        ("sidecar", 1),
    ]
    spec = yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)["spec"]["template"]["spec"]
    assert [entry["name"] for entry in spec["resourceClaims"]] == ["gpu", "gpu-2"]
    claims = {c["name"]: c.get("resources", {}) for c in (*spec["containers"], *spec["initContainers"])}
    assert claims == {
        "main": {"claims": [{"name": "gpu-2", "request": "main"}], "requests": {"cpu": 1}},
        "B.side": {"claims": [{"name": "gpu"}, {"name": "gpu-2", "request": "b-side"}]},
        "log": {},
        "warm": {"claims": [{"name": "gpu-2", "request": "main"}]},
        "sidecar": {"claims": [{"name": "gpu-2", "request": "sidecar"}]},
    }
    assert "# an earlier one" in text.text


def test_the_text_says_what_the_patch_says() -> None:
    text = migrated(CONTAINERS)
    document = yaml.load(CONTAINERS, yaml.CSafeLoader)
    assert changed(document, only(text).changes) == yaml.load(text.text.split("---\n")[-1], yaml.CSafeLoader)
