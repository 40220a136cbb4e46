"""Shapes of manifests on a genuine node: which GPUs each container really has by them."""

from __future__ import annotations

import pytest

from support.genuine_claims import ClaimNode
from support.shapes_of_claims import SHAPES, everybody_has_theirs

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.node,
    pytest.mark.usefixtures("tidy"),
    pytest.mark.sampled("shapes of claims on a node", share="1/2"),
]


@pytest.mark.parametrize("name", SHAPES)
def test_each_container_has_just_the_gpus_of_its_claim(claims: ClaimNode, name: str) -> None:
    everybody_has_theirs(claims, SHAPES[name])
