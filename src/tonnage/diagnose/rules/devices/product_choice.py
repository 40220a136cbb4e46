"""SCH-5: several GPU products would do, and the pod does not say which: warn, and show what decides."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case, device_needs
from tonnage.model.name_lists import listed
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.reasons.pod.pods import ProductUndecided
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
    """One warning when the feasible nodes differ in product."""
    if not device_needs(case.pod):
        return
    products: dict[str, list[str]] = {}
    for name in case.decision.feasible:
        product = case.view.nodes[name].node.labels.get(PRODUCT_LABEL)
        if product:
            products.setdefault(product, []).append(name)
    if len(products) < 2:
        return
    text = ", ".join(f"{product} ({listed(nodes)})" for product, nodes in sorted(products.items()))
    totals = case.decision.scores.totals
    ranking = ", ".join(f"{n} {totals[n]}" for n in sorted(totals, key=lambda n: (-totals[n], n))[:5])
    yield ProductUndecided(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"either product may be chosen: {text}; the default scores decide, and they weigh free CPU "
        f"and memory, not GPUs ({ranking}; equal scores: any of them)",
        remedy=f"if it matters, require {PRODUCT_LABEL} by node affinity",
        source="NodeResourcesFit (LeastAllocated on cpu and memory)",
        products={product: tuple(nodes) for product, nodes in sorted(products.items())},
        totals=totals,
    )
