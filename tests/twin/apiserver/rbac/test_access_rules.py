"""Rules of roles: what one allows, what others cover, how refusals print them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.adapters.clock import SystemClock
from tonnage.model.kubernetes.feature_gates import EXTENDED, TAINTS, FeatureGates
from tonnage.twin.apiserver.rbac.rules import Attributes, RoleRule, uncovered
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.serving.parameters import address_of
from tonnage.twin.apiserver.serving.request_access import asked_by
from tonnage.wire.kinds import CLUSTER_ROLE

BOB = User("bob")
VERBS, GROUPS = ("get", "list", "*"), ("", "apps", "*")
RESOURCES, NAMES = ("pods", "pods/log", "*/log", "*"), ("a", "b")
URLS = ("/a", "/a/b", "/a/*", "*")


def some(values: tuple[str, ...], least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=2, unique=True).map(tuple)


RULES = st.builds(RoleRule, some(VERBS), some(GROUPS), some(RESOURCES), some(NAMES, 0)) | st.builds(
    lambda verbs, urls: RoleRule(verbs, urls=urls), some(VERBS), some(URLS)
)
ASKED = st.builds(
    lambda verb, group, parts, name: Attributes(BOB, verb, group, parts[0], parts[1], name=name),
    st.sampled_from(("get", "list", "watch")),
    st.sampled_from(("", "apps", "batch")),
    st.sampled_from((("pods", ""), ("pods", "log"), ("nodes", "log"), ("nodes", ""))),
    st.sampled_from(("", "a", "b", "c")),
) | st.builds(
    lambda verb, path: Attributes(BOB, verb, path=path, of_resource=False),
    st.sampled_from(("get", "post")),
    st.sampled_from(("/a", "/a/b", "/a/b/c", "/b")),
)


@given(st.lists(RULES, max_size=4), st.lists(RULES, max_size=3), st.lists(ASKED, min_size=1, max_size=20))
def test_who_covers_rules_is_allowed_all_that_they_allow(
    owned: list[RoleRule], wanted: list[RoleRule], asked: list[Attributes]
) -> None:
    missing = uncovered(owned, wanted)
    for one in asked:
        if any(rule.allows(one) for rule in wanted):
            assert any(rule.allows(one) for rule in (*owned, *missing))


@given(st.lists(RULES, max_size=4))
def test_everybody_covers_what_he_has(owned: list[RoleRule]) -> None:
    assert uncovered(owned, owned) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            RoleRule(("get", "list"), ("",), ("pods",)),
            '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        ),
        (RoleRule(("get",), urls=("/a", "/b")), '{NonResourceURLs:["/a" "/b"], Verbs:["get"]}'),
    ],
    ids=["resources", "addresses"],
)
def test_a_rule_is_printed_as_upstream_prints_it(rule: RoleRule, text: str) -> None:
    assert str(rule) == text


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", {"watch": "1"}, ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/ml", {}, ("get", "", "namespaces", "", "ml", "ml")),
        ("PUT", "/api/v1/namespaces/ml/finalize", {}, ("update", "", "namespaces", "finalize", "ml", "ml")),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/ml/deployments",
            {},
            ("deletecollection", "apps", "deployments", "", "ml", ""),
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/ml/deployments/x/scale",
            {},
            ("patch", "apps", "deployments", "scale", "ml", "x"),
        ),
        ("GET", "/api/v1/nodes", {"fieldSelector": "metadata.name=a"}, ("list", "", "nodes", "", "", "a")),
    ],
    ids=["list", "watch", "a namespace", "its finalizers", "a collection", "a subresource", "a list of one"],
)
def test_what_a_request_asks_for(
    method: str, path: str, query: dict[str, str], expected: tuple[str, ...]
) -> None:
    asked = asked_by(BOB, method, path, path[1:].split("/"), query)
    found = (asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name)
    assert found == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/metrics/x", "/openapi/v3/apis"]
)
def test_what_is_no_resource_is_its_path(path: str) -> None:
    asked = asked_by(BOB, "GET", path, [part for part in path.split("/") if part], {})
    assert (asked.of_resource, asked.verb, asked.path) == (False, "get", path)


WORDS = st.sampled_from(
    ("api", "apis", "apps", "v1", "namespaces", "ml", "pods", "a/b", "status", "..", "log", "x")
)


@given(st.lists(WORDS, min_size=1, max_size=8), st.sampled_from(("GET", "DELETE", "PATCH")))
@example(["api", "v1", "namespaces", "ml", "status", "x"], "GET")
@example(["api", "v1", "namespaces", "ml", "namespaces", "x"], "GET")
def test_a_right_is_asked_for_the_object_that_is_served(segments: list[str], method: str) -> None:
    """Whatever tricks a path has: double slashes, escaped ones, dots."""
    address = address_of(segments)
    if address is None:
        return
    asked = asked_by(BOB, method, "/" + "/".join(segments), segments, {})
    group, _, plural = address.path
    assert (asked.group, asked.resource, asked.subresource) == (group, plural, address.subresource)
    assert asked.name == address.name
    assert asked.namespace == address.namespace or (plural == "namespaces" and asked.namespace == asked.name)


@pytest.mark.parametrize(
    ("gates", "makes"),
    [
        pytest.param(FeatureGates(), False, id="default"),
        pytest.param(FeatureGates(35, ((EXTENDED, True),)), True, id="on"),
        pytest.param(FeatureGates(36), True, id="a-release-that-has-it-on"),
        pytest.param(FeatureGates(36, ((EXTENDED, False),)), False, id="off"),
    ],
)
async def test_the_scheduler_may_make_claims_where_it_makes_some_for_extended_resources(
    gates: FeatureGates, makes: bool
) -> None:
    api = ApiServer(SystemClock(), gates=gates).local()
    role = await api.get(CLUSTER_ROLE, "system:kube-scheduler")
    verbs = {
        verb for rule in role.rules or () if "resourceclaims" in rule["resources"] for verb in rule["verbs"]
    }
    assert ("create" in verbs, "delete" in verbs) == (makes, makes)
    names = {listed.metadata.name for listed in (await api.list(CLUSTER_ROLE)).items}
    assert ("system:controller:device-taint-eviction-controller" in names) == gates.has(TAINTS)
