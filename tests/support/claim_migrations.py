"""Pods that count GPUs, migrated to claims."""

from __future__ import annotations

from textwrap import dedent

from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.migrate.claim_migration import ClaimMigration
from tonnage.diagnose.migrate.migrated_texts import MigratedText, migrated_texts

PRODUCTS = ["NVIDIA A100-SXM4-80GB", "Tesla T4"]

GPU = "nvidia.com/gpu"


def migrated(text: str) -> MigratedText:
    (answer,) = migrated_texts([Sheet("pod.yaml", dedent(text))], "default", PRODUCTS)
    return answer


def pod(spec: str, resources: str = "{limits: {nvidia.com/gpu: 1}}") -> MigratedText:
    lines = dedent(spec).strip("\n").splitlines()
    head = ["apiVersion: v1", "kind: Pod", "metadata:", "  name: train", "spec:"]
    tail = ["  containers:", "  - name: main", f"    resources: {resources}"]
    return migrated("\n".join([*head, *(f"  {line}" for line in lines), *tail, ""]))


def only(text: MigratedText) -> ClaimMigration:
    (migration,) = text.migrations
    return migration


def terms(*expressions: str) -> str:
    return "\n".join(
        [
            "affinity:",
            "  nodeAffinity:",
            "    requiredDuringSchedulingIgnoredDuringExecution:",
            "      nodeSelectorTerms:",
            "      - matchExpressions:",
            *(f"        - {expression}" for expression in expressions),
        ]
    )


BIG_A100 = terms(
    "{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-A100-SXM4-80GB]}",
    "{key: nvidia.com/gpu.memory, operator: Gt, values: ['40000']}",
)
