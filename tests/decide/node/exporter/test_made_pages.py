"""Pages for made nodes, pods and processes, against a reading of the recordings' README of its own."""

from __future__ import annotations

import pytest

from support.exporter_cases import made_case
from support.exporter_recordings import Case, page_of, recorded_cases
from support.exporter_reference import covers, reference_page
from tonnage.model.catalog.xid_messages import xid_message

MESSAGES = {str(code): xid_message(code) for code in range(200)}
COVERED = [case for case in recorded_cases() if covers(case)]


@pytest.mark.parametrize("case", COVERED, ids=[case["name"] for case in COVERED])
def test_the_reference_is_what_was_recorded(case: Case) -> None:
    assert reference_page(case, MESSAGES, mended=False) == case["text"]


@pytest.mark.parametrize("case", COVERED, ids=[case["name"] for case in COVERED])
def test_a_recorded_page_with_the_listed_differences_is_ours(case: Case) -> None:
    assert page_of(case) == reference_page(case, MESSAGES, mended=True)


@pytest.mark.parametrize("block", range(8))
def test_made_pages_are_ours_to_the_byte(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        case = made_case(seed)
        assert page_of(case) == reference_page(case, MESSAGES, mended=True), f"seed {seed}"
