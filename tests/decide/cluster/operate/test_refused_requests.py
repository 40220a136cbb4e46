"""Which answers of the API server somebody has to act on."""

from __future__ import annotations

import pytest

from tonnage.decide.cluster.operate.refusals import is_refusal


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        pytest.param(403, True, id="a right, a quota or a webhook"),
        pytest.param(422, True, id="an invalid object"),
        pytest.param(500, True, id="a webhook that cannot be called"),
        pytest.param(404, False, id="the object is gone"),
        pytest.param(409, False, id="somebody else was quicker"),
        pytest.param(429, False, id="the server is busy"),
        pytest.param(502, False, id="a proxy does not reach the server"),
        pytest.param(503, False, id="the server is starting or ending"),
        pytest.param(504, False, id="the server was too slow"),
    ],
)
def test_only_what_somebody_has_to_act_on_is_a_refusal(code: int, refusal: bool) -> None:
    assert is_refusal(code) is refusal
