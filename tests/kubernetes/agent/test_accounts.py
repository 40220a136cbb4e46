"""Six accounts of who has which device: each difference between them is told. Needs no cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.accounts import Accounts, Asked, disagreements

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
ONE, TWO = (GPU, "GPU-1"), (GPU, "GPU-2")
FIRST, SECOND = (SHARED, "GPU-0::0"), (SHARED, "GPU-0::1")
BOOK = {"ml/a": frozenset({ONE, FIRST}), "ml/b": frozenset({SECOND})}
WELL = Accounts(
    asked={"ml/a": Asked({GPU: 1, SHARED: 1}, running=True), "ml/b": Asked({SHARED: 1}, running=True)},
    containers={"ml/a": [("GPU-1",), ("GPU-0",)], "ml/b": [("GPU-0",)]},
    checkpoint=BOOK,
    listed=BOOK,
    published=BOOK,
    ledger=frozenset({ONE, FIRST, SECOND}),
    offered=frozenset({ONE, TWO, FIRST, SECOND}),
    allocatable={GPU: 2, SHARED: 2},
)
A_HAS_TWO = {**BOOK, "ml/a": frozenset({TWO, FIRST})}
B_HAS_ONE = {**BOOK, "ml/b": frozenset({SECOND, ONE})}
A_IS_UNKNOWN = {"ml/b": BOOK["ml/b"]}


def test_accounts_that_agree_have_no_differences() -> None:
    assert disagreements(WELL) == []


@pytest.mark.parametrize(
    ("accounts", "told"),
    [
        pytest.param(
            replace(WELL, containers={**WELL.containers, "ml/b": [("GPU-1",)]}),
            "GPU-1 is in 2 containers and may be in 1",
            id="a whole device in two containers",
        ),
        pytest.param(
            replace(WELL, containers={**WELL.containers, "ml/b": [("GPU-0",), ("GPU-0",)]}),
            "GPU-0 is in 3 containers and may be in 2",
            id="a shared device in too many",
        ),
        pytest.param(
            replace(WELL, containers={**WELL.containers, "ml/a": [("GPU-2",), ("GPU-0",)]}),
            "ml/a: its containers see ['GPU-0', 'GPU-2'], the books have ['GPU-0', 'GPU-1']",
            id="a container has another device",
        ),
        pytest.param(
            replace(WELL, containers={**WELL.containers, "gone": [("GPU-2",)]}),
            "gone: is over or gone, and has devices or containers",
            id="a container of no pod",
        ),
        pytest.param(
            replace(WELL, checkpoint=B_HAS_ONE),
            f"kubelet's checkpoint: {ONE} is held by ['ml/a', 'ml/b']",
            id="kubelet gave one twice",
        ),
        pytest.param(
            replace(WELL, checkpoint=A_HAS_TWO, listed=A_HAS_TWO),
            f"ml/a: checkpoint has [{TWO}], NodeGPUStatus has not",
            id="the agent has missed a change",
        ),
        pytest.param(
            replace(WELL, listed=A_IS_UNKNOWN),
            f"ml/a: kubelet lists [], its checkpoint has {sorted(BOOK['ml/a'])}",
            id="kubelet does not list what it has",
        ),
        pytest.param(
            replace(WELL, ledger=WELL.ledger - {ONE}),
            f"NodeGPUStatus has [{ONE}], the ledger has not",
            id="the ledger lacks one",
        ),
        pytest.param(
            replace(WELL, ledger=WELL.ledger | {TWO}),
            f"the ledger has [{TWO}], NodeGPUStatus has not",
            id="the ledger has one too many",
        ),
        pytest.param(
            replace(WELL, asked={**WELL.asked, "ml/b": Asked({SHARED: 2}, running=True)}),
            f"ml/b: asks for {{'{SHARED}': 2}} and has {{'{SHARED}': 1}}",
            id="a pod runs with too little",
        ),
        pytest.param(
            replace(WELL, asked={"ml/b": WELL.asked["ml/b"]}),
            "ml/a: is over or gone, and has devices or containers",
            id="a pod that is over has devices",
        ),
        pytest.param(
            replace(WELL, allocatable={GPU: 1, SHARED: 2}),
            f"kubelet offers {{'{GPU}': 2, '{SHARED}': 2}}, the Node says {{'{GPU}': 1, '{SHARED}': 2}}",
            id="a device is lost",
        ),
    ],
)
def test_a_difference_is_told(accounts: Accounts, told: str) -> None:
    assert told in [_sorted(text) for text in disagreements(accounts)]


def _sorted(text: str) -> str:
    """Counts in the order of their names."""
    head, offers, tail = text.partition("kubelet offers ")
    if not offers:
        return text
    counts, says, rest = tail.partition(", the Node says ")
    return f"{head}{offers}{_by_name(counts)}{says}{_by_name(rest)}"


def _by_name(counts: str) -> str:
    return "{" + ", ".join(sorted(counts.strip("{}").split(", "))) + "}"


def test_what_kubelet_forgot_the_agent_alone_must_have() -> None:
    accounts = replace(WELL, checkpoint=A_IS_UNKNOWN, listed=A_IS_UNKNOWN)
    assert disagreements(accounts, forgotten=["ml/a"]) == []
    assert disagreements(accounts) != []
    lost = replace(accounts, published=A_IS_UNKNOWN, ledger=frozenset({SECOND}))
    assert disagreements(lost, forgotten=["ml/a"]) != []


def test_what_is_held_without_a_name_is_the_forgotten_pods_that_has_it() -> None:
    accounts = replace(WELL, published={**A_IS_UNKNOWN, "/": BOOK["ml/a"]}, checkpoint={}, listed={})
    assert disagreements(accounts, forgotten=["ml/a", "ml/b"]) == []
    stolen = replace(accounts, published={**accounts.published, "/": BOOK["ml/a"] | {TWO}})
    assert "/: is over or gone, and has devices or containers" in disagreements(
        stolen, forgotten=["ml/a", "ml/b"]
    )
