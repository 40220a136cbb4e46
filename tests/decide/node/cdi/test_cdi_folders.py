"""Several CDI specs together."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.cdi.folders import conflicts


def spec(kind: str, *names: str) -> dict[str, Any]:
    return {"kind": kind, "devices": [{"name": name} for name in names]}


def test_a_conflict_of_an_earlier_folder_is_one_though_a_later_folder_has_the_device() -> None:
    specs = [("/etc/a", 0, spec("x.y/gpu", "0")), ("/etc/b", 0, spec("x.y/gpu", "1", "0"))]
    rivals = conflicts([*specs, ("/run/c", 1, spec("x.y/gpu", "0"))])
    assert {path: [problem.where for problem in problems] for path, problems in rivals.items()} == {
        "/etc/a": ["/etc/a devices[0].name"],
        "/etc/b": ["/etc/b devices[1].name"],
    }


specs = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["a.b/gpu", "a.b/nic"]), st.frozensets(st.sampled_from("012"))
    ),
    max_size=6,
)


@given(specs)
def test_what_conflicts_is_what_two_specs_of_a_rank_have(made: list[tuple[int, str, frozenset[str]]]) -> None:
    given_specs = [(f"/{n}", rank, spec(kind, *sorted(names))) for n, (rank, kind, names) in enumerate(made)]
    found = {
        (path, problem.what.split('"')[1])
        for path, problems in conflicts(given_specs).items()
        for problem in problems
    }
    expected = {
        (f"/{n}", f"{kind}={name}")
        for n, (rank, kind, names) in enumerate(made)
        for name in names
        for m, (other_rank, other_kind, others) in enumerate(made)
        if m != n and (other_rank, other_kind) == (rank, kind) and name in others
    }
    assert found == expected
