"""What expressions cost at most, and what their types are called."""

from __future__ import annotations

import pytest

from tonnage.decide.kubernetes.cel.cost.costs import estimated_cost
from tonnage.decide.kubernetes.cel.cost.ranges import MOST
from tonnage.decide.kubernetes.cel.expression import Expression
from tonnage.decide.kubernetes.cel.types.kinds import INT, CelKind

TEXT = CelKind("string", most=40, least=2)
NAMES = CelKind("list", TEXT, most=5, least=2)
SELF = CelKind("object", fields=(("n", INT), ("s", TEXT), ("names", NAMES), ("deep", CelKind("list", NAMES))))
KNOWN = (("self", SELF),)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("self.n > 1", 3),
        ("has(self.s)", 1),
        ("self.s == 'abc'", 3),
        ("self.s.contains('abcdefghijk')", 10),
        ("self.names.all(x, x == 'a')", 28),
        ("self.names.all(x, self.names.all(y, x != y))", 258),
        ("dyn(self.s).matches('a')", 8),
        ("[1, 2].size() == 2", 12),
        ("{'a': 1}.size() == 1", 32),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", 6),
    ],
    ids=str,
)
def test_an_estimate_goes_through_all_that_is_looked_at(text: str, most: int) -> None:
    expression = Expression(text, KNOWN, ())
    assert expression.error == ""
    cost = estimated_cost(expression.tree, SELF)
    assert 0 <= cost.least <= cost.most <= MOST
    assert cost.most == most


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("self", "schema.T0"),
        ("self.names", "list(string)"),
        ("self.deep[0]", "dyn"),
        ("self.names.map(x, {x: size(x)})", "list(map(string, int))"),
        ("null", "null"),
        ("timestamp('2020-01-01T00:00:00Z')", "timestamp"),
        ("ip('::1')", "net.IP"),
        ("optional.of(1)", "optional_type(int)"),
        ("type(1)", "dyn"),
    ],
    ids=str,
)
def test_types_have_the_compilers_names(text: str, kind: str) -> None:
    assert Expression(text, KNOWN, ()).type == kind
