"""Documents that are small enough to be read and once took minutes, or said more than anybody reads."""

from __future__ import annotations

import pytest

from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.yaml.reader import MAX_PROBLEMS, parse_yaml
from tonnage.model.errors import ConfigError


def test_twenty_thousand_merges_are_read_once_each() -> None:
    """Each copied the marks of all that was read before: minutes for a text below a megabyte."""
    text = "a: &a {b: 1}\n" + "".join(f"k{place}: {{<<: *a}}\n" for place in range(20_000))
    found = parse_yaml(text, source="x")
    assert isinstance(found.value, dict)
    assert found.value["k19999"] == {"b": 1}
    assert found.where(("k19999", "b")) == "x:1:8 k19999.b"


def test_a_key_of_the_mapping_stays_where_it_is_when_a_merge_has_it_too() -> None:
    found = parse_yaml("a: &a {b: 1, c: 2}\nd:\n  b: 3\n  <<: *a\n", source="x")
    assert found.value == {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}
    assert found.where(("d", "b")) == "x:3:3 d.b"
    assert found.where(("d", "c")) == "x:1:14 d.c"


def test_no_more_problems_are_made_than_are_said() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml("a: 1\n" * 10_000, source="x")
    assert len(caught.value.problems) == MAX_PROBLEMS


def test_a_configuration_that_takes_seconds_to_read_is_refused_by_its_size() -> None:
    text = "version: v1\n" + "#" * (256 << 10)
    with pytest.raises(ConfigError, match="the configuration is too large"):
        parse_device_plugin_config(text, source="x")
