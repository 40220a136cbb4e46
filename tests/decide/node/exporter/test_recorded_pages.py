"""Pages of dcgm-exporter as recorded, against ours for the same inputs: equal but for its listed defects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.exporter_recordings import Case, page_of, recorded_cases

CASES = recorded_cases()
Change = Callable[[str], str]


def without(*patterns: str) -> Change:
    """The text without labels of these names, or with this value."""

    def change(text: str) -> str:
        for pattern in patterns:
            text = re.sub(rf'(?<=[{{,]){pattern}="(?:[^"\\]|\\.)*",?', "", text)
        return text.replace(",}", "}")

    return change


def without_lines(pattern: str) -> Change:
    return lambda text: re.sub(rf"^.*(?:{pattern}).*\n", "", text, flags=re.MULTILINE)


def unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")


ZERO_WITHOUT_UID: Final = without_lines(r'DCGM_FI_DEV_(?:GPU_UTIL|FB_USED)\{.*pod_uid=""')
"""Noted as zero-without-api; other cases without access to pods have such rows too."""
POD_LABELS: Final = (
    r"(?!DCGM_|window_|xid|clock_event)(?:_?3d_model|app\w*|batch\w*|kueue\w*|team|pod_template_hash)"
)
DEFECTS: Final[Mapping[str, Change]] = {
    "unescaped-help": unescaped,
    "unescaped-label-value": unescaped,
    "not-permitted-word-as-label-value": lambda text: re.sub(r'\w+="<<<NOT_PERM>>>",?', "", text).replace(
        ",}", "}"
    ),
    "last-pod-wins": without("container", "namespace", "pod"),
    "replica-number-carried-over": without("vgpu"),
    "memory-not-available-as-number": without_lines(r"DCGM_FI_DEV_FB_USED\{.*team-a.*llm-serve-39c34-97c6"),
    "zero-without-nvml": without_lines(r"DCGM_FI_DEV_(?:GPU_UTIL|FB_USED)\{.*pod_uid="),
    "mig-utilization-always-zero": without_lines(r"DCGM_FI_DEV_GPU_UTIL\{.*GPU_I_ID.*pod_uid="),
    "duplicate-label-name": lambda text: text.replace(',gpu="true"', ""),
    "invalid-label-name": lambda text: text.replace(',3d_model="v2"', "").replace(',_3d_model="v2"', ""),
    "pod-labels-ignored-with-virtual-gpus": without(POD_LABELS),
    "every-switch-named-nvswitch0": lambda text: re.sub(r"nvswitch[0-9]+", "nvswitch0", text),
    "sentinel-as-label-value": lambda text: re.sub(r',\w+="SKIPPING DCGM VALUE"', "", text),
    "zero-rows-share-labels": without(POD_LABELS, "DCGM_FI_DEV_SERIAL"),
}
"""By the recording's note: what to leave out of both pages, so that nothing else may differ."""
AS_RECORDED: Final = frozenset(
    (
        *(
            "empty-hostname",
            "no-hostname-ignored",
            "unlisted-resource-unattributed",
            "per-process-zero-for-idle",
        ),
        *("pod-value-on-each-container", "pod-label-may-collide", "duplicate-series", "no-socket"),
        "zero-without-api",
    )
)
"""Notes that change nothing here: done as there, decided before the page is made, or part of another."""


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_our_page_is_the_recorded_one_but_for_defects(case: Case) -> None:
    ours, recorded = page_of(case), case["text"]
    assert not set(case["notes"]) - set(DEFECTS) - AS_RECORDED
    changes = [ZERO_WITHOUT_UID, *(DEFECTS[note] for note in case["notes"] if note in DEFECTS)]
    for change in changes:
        ours, recorded = change(ours), change(recorded)
    assert ours == recorded


def test_most_cases_are_equal_to_the_byte() -> None:
    equal = [case["name"] for case in CASES if page_of(case) == case["text"]]
    assert len(equal) >= 14


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_prometheus_can_read_every_page(case: Case) -> None:
    series = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(page_of(case))
        for sample in family.samples
    ]
    assert series
    assert len(set(series)) == len(series), "no series stands there twice"
