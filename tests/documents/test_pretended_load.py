"""The annotation `tonnage.dev/pretended-load`: what it says, and what is said of a wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.pretended_load import parse_load
from tonnage.model.devices.pretended_load import LoadKind, PretendedLoad
from tonnage.model.errors import Problem


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("training busy=80% width=50%", {"busy": 0.8, "width": 0.5}, id="shares of a hundred"),
        pytest.param("inference rate=40/s service=15ms", {"rate": 40, "service_s": 0.015}, id="a service"),
        pytest.param("idle memory=8GiB", {"memory_mib": 8192}, id="memory as an amount"),
        pytest.param("idle memory=512Mi", {"memory_mib": 512}, id="memory in Kubernetes' unit"),
        pytest.param("idle memory=40%", {"memory_share": 0.4, "memory_mib": None}, id="memory as a share"),
        pytest.param("leak per-minute=6%", {"growth_share": 0.001}, id="growth"),
        pytest.param("crash xid=48 after=2m", {"xid": 48, "after_s": 120}, id="a crash"),
        pytest.param("  training   seed=7 ", {"seed": 7}, id="spaces"),
    ],
)
def test_a_load_is_what_its_annotation_says(text: str, values: dict[str, Any]) -> None:
    load = parse_load(text)
    assert isinstance(load, PretendedLoad)
    assert {name: pytest.approx(getattr(load, name)) for name in values} == values


@pytest.mark.parametrize("kind", LoadKind)
def test_every_kind_needs_no_setting(kind: LoadKind) -> None:
    load = parse_load(kind)
    assert isinstance(load, PretendedLoad)
    assert load.kind is kind


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "is not a kind of load; use one of: crash, idle", id="nothing"),
        pytest.param("trainng", "use training if you meant that", id="another word"),
        pytest.param("idle rate=3", 'idle has no setting "rate"', id="a setting of another kind"),
        pytest.param("training bussy=3%", "use busy if you meant that", id="a misspelt setting"),
        pytest.param("training busy=3", "write busy=80%", id="a share without a unit"),
        pytest.param("training busy=101%", "write busy=80%", id="more than everything"),
        pytest.param("inference rate", "write rate=40", id="no value"),
        pytest.param("crash xid=0", "write xid=79", id="no Xid"),
        pytest.param("crash xid=70000", "write xid=79", id="a number that no Xid has"),
        pytest.param("crash after=9999h", "write after=90s", id="too far away"),
        pytest.param("idle seed=" + "9" * 600, "at most 500 are read", id="too long"),
    ],
)
def test_a_wrong_annotation_is_told_with_its_remedy(text: str, words: str) -> None:
    problem = parse_load(text)
    assert isinstance(problem, Problem)
    assert problem.where == "tonnage.dev/pretended-load"
    assert words in f"{problem.what}; {problem.why}{problem.remedy}"
