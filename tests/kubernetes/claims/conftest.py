"""One agent for all scenes of claims: to install it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.genuine_claims import WHOLE, ClaimNode, claim_node
from support.genuine_cluster import GenuineCluster


@pytest.fixture(scope="package")
def claims(cluster: GenuineCluster, agent_version: str) -> Iterator[ClaimNode]:
    """With four GPUs, all of which are claims."""
    with claim_node(cluster, agent_version) as claims:
        claims.offer(*WHOLE)
        yield claims


@pytest.fixture
def tidy(claims: ClaimNode) -> Iterator[None]:
    """Afterwards: no pods, no claims, nothing is held, and the four GPUs are claims."""
    yield
    claims.clear()
    if claims.devices() != [*WHOLE]:
        claims.offer(*WHOLE)
