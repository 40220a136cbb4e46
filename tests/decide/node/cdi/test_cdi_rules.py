"""What container runtimes refuse of a CDI spec, and which version it must have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.cdi.rules import VERSIONS, minimum_version, spec_problems
from tonnage.decide.node.cdi.shape import MOST_UNKNOWN

GOOD: dict[str, Any] = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}],
}


def device(**edits: object) -> dict[str, Any]:
    return {**GOOD, "devices": [{"name": "0", "containerEdits": edits}]}


@pytest.mark.parametrize(
    ("wrong", "where", "what"),
    [
        ({**GOOD, "cdiVersion": "0.3.0"}, "cdiVersion", "the spec version must be at least v0.5.0"),
        ({**GOOD, "cdiVersion": "9"}, "cdiVersion", 'invalid version "9"'),
        ({**GOOD, "kind": "gpu"}, "kind", 'invalid vendor/class "gpu" in Spec'),
        ({**GOOD, "kind": "1a/gpu"}, "kind", 'invalid vendor. "1a", should start with letter'),
        ({**GOOD, "kind": "aa/g?u"}, "kind", "invalid class. invalid character '?' in name \"g?u\""),
        ({**GOOD, "devices": []}, "devices", "invalid spec, no devices"),
        ({**GOOD, "devices": GOOD["devices"] * 2}, "devices[1].name", 'invalid spec, multiple device "0"'),
        ({**GOOD, "device": []}, "device", 'unknown field "device"'),
        (device(), "devices[0].containerEdits", "invalid device, empty device edits"),
        (
            device(env=["=x"]),
            "devices[0].containerEdits.env[0]",
            'invalid container edits: invalid environment variable "=x"',
        ),
        (
            device(deviceNodes=[{"path": "/dev/a", "type": "x"}]),
            "devices[0].containerEdits.deviceNodes[0].type",
            'device "/dev/a": invalid type "x"',
        ),
        (
            device(deviceNodes=[{"path": "/dev/a", "permissions": "rx"}]),
            "devices[0].containerEdits.deviceNodes[0].permissions",
            'device "/dev/a": invalid permissions "rx"',
        ),
        (
            device(deviceNodes=[{"hostPath": "/a"}]),
            "devices[0].containerEdits.deviceNodes[0]",
            "invalid (empty) device path",
        ),
        (
            device(hooks=[{"hookName": "later", "path": "/x"}]),
            "devices[0].containerEdits.hooks[0].hookName",
            'invalid hook name "later"',
        ),
        (
            device(hooks=[{"hookName": "poststop"}]),
            "devices[0].containerEdits.hooks[0].path",
            'invalid hook "poststop" with empty path',
        ),
        (
            device(mounts=[{"hostPath": "/x"}]),
            "devices[0].containerEdits.mounts[0].containerPath",
            "invalid mount, empty container path",
        ),
        (device(env="A=b"), "devices[0].containerEdits.env", "no list"),
        ([], "", "no object"),
    ],
)
def test_what_a_runtime_refuses_is_said_in_its_words(wrong: Any, where: str, what: str) -> None:
    assert spec_problems(GOOD) == ()
    (problem,) = spec_problems(wrong)
    assert (problem.where, problem.what) == (where, what)


def test_all_problems_are_told_at_once() -> None:
    wrong = device(env=["x"], mounts=[{}], hooks=[{"hookName": "x", "path": "/x"}]) | {"cdiVersion": "7"}
    assert len(spec_problems(wrong)) == 5


def test_an_unknown_field_hides_no_other_problem() -> None:
    wrong = device(env=["b"], mounts=[{}]) | {"cdiVersion": "9.9.9"}
    wrong["devices"] += [{"name": "-x", "containerEdits": {"envs": 1}}, 7, {"name": "-x"}]
    without = spec_problems(wrong)
    problems = spec_problems(wrong | {"bogus": 1})
    assert {"devices[3].name", "cdiVersion"} < {each.where for each in without}
    assert {each.what for each in set(problems) - set(without)} == {'unknown field "bogus"'}
    assert set(without) < set(problems)


def test_what_has_the_wrong_shape_is_told_once() -> None:
    wrong: Any = {"cdiVersion": ["0.5.0"], "kind": {}, "devices": [{"name": [], "containerEdits": 5}]}
    assert [(problem.where, problem.what) for problem in spec_problems(wrong)] == [
        ("cdiVersion", "no text"),
        ("kind", "no text"),
        ("devices[0].name", "no text"),
        ("devices[0].containerEdits", "no object"),
    ]


def test_of_another_programs_file_no_content_is_told() -> None:
    """Such as /etc/shadow, to which somebody made a link: each of its lines is a key of YAML."""
    (problem,) = spec_problems({f"root{number}:*:19000:0:99999:7::": None for number in range(50)})
    assert problem.what == "not a CDI spec"
    assert "root" not in f"{problem}{problem.why}{problem.remedy}"
    many = spec_problems(GOOD | {f"secret{number}": 1 for number in range(50)})
    assert len(many) == MOST_UNKNOWN


@pytest.mark.parametrize(
    ("version", "uses"),
    [
        ("0.3.0", {"name": "a", "containerEdits": {"env": ["A=b"]}}),
        ("0.4.0", {"name": "a", "containerEdits": {"mounts": [{"type": "bind"}]}}),
        ("0.5.0", {"name": "0"}),
        ("0.5.0", {"name": "a", "containerEdits": {"deviceNodes": [{"path": "/a", "hostPath": "/b"}]}}),
        ("0.6.0", {"name": "0", "annotations": {"a": "b"}}),
        ("0.7.0", {"name": "0", "containerEdits": {"additionalGids": [5]}}),
        ("1.1.0", {"name": "0", "containerEdits": {"netDevices": [{"name": "a"}]}}),
    ],
)
def test_the_version_is_the_oldest_that_has_what_is_used(version: str, uses: Any) -> None:
    assert minimum_version({"kind": "nvidia.com/gpu", "devices": [uses]}) == version
    assert minimum_version({"kind": "nvidia.com/g.pu", "devices": [uses]}) == max(version, "0.6.0")
    assert list(VERSIONS) == sorted(VERSIONS)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "devices",
                        "name",
                        "containerEdits",
                        "env",
                        "mounts",
                        "kind",
                        "cdiVersion",
                        "deviceNodes",
                        "hooks",
                        "netDevices",
                        "intelRdt",
                        "x",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_anything_is_judged(anything: Any) -> None:
    assert all(problem.what for problem in spec_problems(anything))
