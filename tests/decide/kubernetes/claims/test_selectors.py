"""CEL selectors against recorded answers of the scheduler's own compiler and evaluator."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.expressions import CelSelector, selection
from tonnage.model.kubernetes.resource_claims import SemanticVersion, SliceDevice
from tonnage.reading.claims import slice_from
from tonnage.wire import claims as claim_objects

_FILE: Final = Path(__file__).parents[3] / "data" / "dra-selectors.json"
DIFFERENT: Final = {
    "device.capacity['d'].memory.sign() == 1": "`sign` is no method; the words for calling it as one differ",
    "quantity('1.5.5Gi').sign() == 1": "the same",
    "device.capacity['d'].nope.sign() == 1": "the same",
    "device.driver.matches('[')": "an invalid pattern is found when it runs, not before",
    "[1, 'a'].size() == 2": "lists of mixed literals are let through",
    "{'a': 1, 'b': 'c'}.size() == 2": "maps of mixed literals are let through",
    "'abc'.reverse() == 'cba'": "the library's strings can be reversed",
    "device.driver.size(1)": "the words for a call with too many arguments differ",
    "duration(device.attributes['d'].s) == duration('1h')": "the words for a text that is no duration differ",
    "dyn(quantity('5')) == 5": "a quantity hidden by dyn() compares without an error",
}
"""What is known to differ, and how; nothing that a driver's documentation would tell anybody to write."""
UNSUPPORTED: Final = 19


@cache
def recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_FILE.read_text())
    return document


def device() -> tuple[str, SliceDevice]:
    spec = {"driver": "d", "allNodes": True, "pool": {"name": "p"}, "devices": [recorded()["device"]]}
    return "d", slice_from(claim_objects.ResourceSlice(spec=spec)).devices[0]


def answer(expression: str, minor: int) -> dict[str, object]:
    selector = CelSelector(expression, minor)
    if selector.error:
        return {"compile": selector.error}
    try:
        return {"match": selector.matches(*device())}
    except CelError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("release", ["1.35", "1.36", "1.37"])
def test_every_answer_is_the_recorded_one_or_none(release: str) -> None:
    unsupported, different = 0, {}
    for case in recorded()["cases"]:
        expected = case["1.35"]
        for later in ("1.36", "1.37"):
            expected = case.get(later, expected) if later <= release else expected
        try:
            reply = answer(case["expression"], int(release[2:]))
        except CelUnsupportedError:
            unsupported += 1
            continue
        if reply != expected:
            different[case["expression"]] = reply
    assert set(different) == set(DIFFERENT), different
    assert unsupported <= UNSUPPORTED


def test_a_missing_attribute_is_an_error_and_says_which_dra_1() -> None:
    expression = "device.driver == 'd' && device.attributes['d'].memoryGiB >= 80"
    assert answer(expression, 35) == {"error": "no such key: memoryGiB"}


def test_a_domain_compared_with_a_number_is_refused_with_the_servers_words_dra_2() -> None:
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['memory'] >= 40000"
    error = CelSelector(expression, 35).error
    assert error.splitlines()[0] == (
        "compilation failed: ERROR: <input>:1:66: "
        "found no matching overload for '_>=_' applied to '(map(string, any), int)'"
    )
    assert CelSelector(expression, 37).error.count("map(string, dyn)") == 1


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("1 == 1 && " * 1100 + "true", id="longer than the API takes"),
        pytest.param(
            "[1,2,3,4,5,6,7,8,9,10]"
            + "".join(f".all(a{i}, [1,2,3,4,5,6,7,8,9,10]" for i in range(7))
            + ".all(z, z > 0)"
            + ")" * 7,
            id="lists gone through in one another",
        ),
        pytest.param("''" + ".replace('', 'aaaaaaaaaa')" * 20 + " == ''", id="a text that grows and grows"),
        pytest.param("cel.bind(d, device, true)", id="the device as a whole"),
    ],
)
def test_what_could_go_on_for_long_is_not_tried(expression: str) -> None:
    with pytest.raises(CelUnsupportedError):
        CelSelector(expression, 35)


def test_what_goes_on_beyond_the_budget_of_the_library_is_not_known() -> None:
    lists = "".join(f"[1,2,3,4,5,6,7,8,9].all(a{i}, " for i in range(6))
    choice = selection(f"{lists}a0 + a5 > 0{')' * 6}", 35)
    for _ in range(2):
        with pytest.raises(CelUnsupportedError, match="takes too long to decide here"):
            choice.takes("d", SliceDevice("d"))


def test_a_device_beyond_all_limits_is_not_gone_through() -> None:
    huge = SliceDevice("d", {f"a{i}": i for i in range(100)})
    assert CelSelector("device.attributes['d'].a7 == 7", 35).matches("d", huge)
    with pytest.raises(CelUnsupportedError):
        CelSelector("device.attributes['d'].all(k, k != '')", 35).matches("d", huge)


@given(
    st.dictionaries(
        st.sampled_from(["x", "y", "d/x", "other.com/x"]),
        st.one_of(
            st.integers(-3, 3), st.booleans(), st.sampled_from(["1", "a"]), st.just(SemanticVersion("1.0.0"))
        ),
        max_size=4,
    ),
    st.sampled_from(
        [
            "device.attributes['d'].x == 1",
            "device.attributes['d'].x == '1' || device.attributes['other.com'].x == true",
            "has(device.attributes['d'].y) && device.attributes['d'].y in ['1', 'a']",
            "device.attributes['other.com'].exists(k, k == 'x')",
            "cel.bind(a, device.attributes['d'], a.?x.orValue(3) == 3)",
        ]
    ),
)
def test_an_answer_that_was_kept_is_the_answer_that_would_be_given(
    attributes: dict[str, Any], expression: str
) -> None:
    device = SliceDevice("d", attributes)
    kept = _KEPT.setdefault(expression, selection(expression, 35))

    def said(ask: Any) -> object:
        try:
            return ask("d", device)
        except CelError as error:
            return str(error)

    assert said(kept.takes) == said(CelSelector(expression, 35).matches)


_KEPT: dict[str, Any] = {}
