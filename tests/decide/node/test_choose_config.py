"""Which configuration a node asks for: label, default, fallbacks, file."""

from __future__ import annotations

import pytest

from tonnage.decide.node.choose_config import ConfigChoice, Wishes, choose, unknown_fallbacks
from tonnage.model.errors import Problem

MAP = "tonnage-system/device-plugin-config"

FILE = ConfigChoice("x", "f")


@pytest.mark.parametrize(
    ("label", "data", "file", "source"),
    [
        pytest.param("a", {"a": "1", "default": "2"}, FILE, f"{MAP}[a]", id="the label's key"),
        pytest.param("", {"a": "1", "default": "2"}, FILE, f"{MAP}[default]", id="no label: key default"),
        pytest.param(None, {"a": "1"}, FILE, "f", id="no default: the file"),
        pytest.param(None, None, FILE, "f", id="no ConfigMap: the file"),
        pytest.param(None, None, None, "built-in", id="nothing: built in"),
    ],
)
def test_the_choice(
    label: str | None, data: dict[str, str] | None, file: ConfigChoice | None, source: str
) -> None:
    chosen = choose(label, data, file, Wishes(MAP))
    assert isinstance(chosen, ConfigChoice)
    assert chosen.source == source


@pytest.mark.parametrize(
    ("data", "why", "remedy"),
    [
        pytest.param({"a": "", "b": ""}, "has no such key", "its keys: a, b", id="no such key"),
        pytest.param(None, "does not exist", "create ConfigMap", id="no ConfigMap"),
    ],
)
def test_a_label_without_configuration_is_a_problem(
    data: dict[str, str] | None, why: str, remedy: str
) -> None:
    problem = choose("c", data, FILE, Wishes(MAP))
    assert isinstance(problem, Problem)
    assert why in problem.why
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("fallbacks", "data", "file", "source"),
    [
        pytest.param(("named", "single"), {"default": "1"}, None, f"{MAP}[default]", id="named"),
        pytest.param(("named", "single"), {"a": "1"}, None, f"{MAP}[a]", id="not named: the only one"),
        pytest.param(
            ("single", "named"), {"a": "1", "default": ""}, None, f"{MAP}[default]", id="of two: named"
        ),
        pytest.param(("single",), {"a": "1", "b": ""}, FILE, "f", id="none of them: the file"),
        pytest.param(("empty", "named"), {"default": "1"}, None, "built-in", id="empty comes first"),
        pytest.param(("empty",), {"default": "1"}, FILE, "f", id="empty is the file where there is one"),
        pytest.param(("named", "single"), {"a": "", "b": ""}, None, None, id="all fail"),
        pytest.param(("named", "single"), None, None, None, id="no ConfigMap"),
        pytest.param((), {"default": "1"}, None, None, id="none at all"),
    ],
)
def test_the_fallbacks_count_in_their_order(
    fallbacks: tuple[str, ...], data: dict[str, str] | None, file: ConfigChoice | None, source: str | None
) -> None:
    chosen = choose("", data, file, Wishes(MAP, fallbacks=fallbacks))
    assert source == (chosen.source if isinstance(chosen, ConfigChoice) else None)
    if isinstance(chosen, Problem):
        assert chosen.what == "no config was set, no default was provided, and all fallbacks failed"


def test_the_default_counts_before_every_fallback_and_must_exist() -> None:
    wishes = Wishes(MAP, default="basic")
    both = {"basic": "1", "default": "2"}
    assert choose("", both, None, wishes) == ConfigChoice("1", f"{MAP}[basic]", "basic")
    assert choose("default", both, None, wishes) == ConfigChoice("2", f"{MAP}[default]", "default")
    missing = choose("", {"default": "2"}, FILE, wishes)
    assert isinstance(missing, Problem)
    assert (missing.where, missing.remedy) == ("--default-config", "its keys: default")


def test_a_fallback_that_nobody_knows_is_a_problem() -> None:
    assert unknown_fallbacks(("named", "single", "empty")) is None
    assert "unknown fallback strategy: 'first'" in str(unknown_fallbacks(("named", "first")))
