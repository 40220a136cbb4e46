"""`tonnage access operator ...`: the roles of commands that write, and that work in two namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tonnage.cli.access.objects import as_one, show_objects, yaml_lines
from tonnage.cli.cluster import connected
from tonnage.cli.options import Common
from tonnage.cli.terminal.output import emit, lines, say
from tonnage.cli.terminal.tables import table
from tonnage.diagnose.access import ResourceRight, Subjects
from tonnage.diagnose.operator_access import (
    OPERATOR_ACCESS,
    OperatorAccess,
    operator_role_lines,
    operator_roles,
)
from tonnage.model.json import JsonObject, JsonValue


def show_operator_roles(
    common: Common, command: str, subjects: Subjects, namespaces: tuple[str, str]
) -> None:
    """Print them, with bindings in the namespaces of operator and agents where there are subjects."""
    access = OPERATOR_ACCESS[command]
    objects = operator_roles(access, subjects, _namespaces(access, namespaces))
    show_objects(common, objects, partial(operator_role_lines, access))


async def check_operator_access(common: Common, command: str, namespaces: tuple[str, str]) -> int:
    """Exit status 1 where a right is lacking. Raises ApiError: the server answers no reviews."""
    from tonnage.adapters.kubernetes.access_reviews import permitted

    access = OPERATOR_ACCESS[command]
    requests = [("", right, verb) for right in access.cluster for verb in right.verbs]
    requests += [
        (namespace, right, verb)
        for namespace in _namespaces(access, namespaces)
        for right in access.namespaced
        for verb in right.verbs
    ]
    async with connected(common) as api:
        answers = await permitted(api, [_attributes(*request) for request in requests])
    roles = [] if all(answers) else operator_roles(access, Subjects(), ())
    if common.output != "text":
        items: list[JsonValue] = [
            {**_attributes(*request), "allowed": allowed}
            for request, allowed in zip(requests, answers, strict=True)
        ]
        emit({"items": items, "lacking": as_one(roles)}, common.output)
        return int(bool(roles))
    rows = [
        (right.name, verb, f"in {namespace}" if namespace else "everywhere", "yes" if allowed else "no")
        for (namespace, right, verb), allowed in zip(requests, answers, strict=True)
    ]
    say(table(("RESOURCE", "VERB", "WHERE", "ALLOWED"), rows))
    of_role = partial(operator_role_lines, access)
    for role in roles:
        say(lines(["", "This role grants what is missing:", "", *yaml_lines(role, of_role)]))
    return int(bool(roles))


def _namespaces(access: OperatorAccess, namespaces: tuple[str, str]) -> Sequence[str]:
    """Those that the command works in, each once."""
    return tuple(dict.fromkeys(namespaces if access.agents else namespaces[:1]))


def _attributes(namespace: str, right: ResourceRight, verb: str) -> JsonObject:
    """A request as a review has it."""
    resource, _, part = right.resource.partition("/")
    attributes: JsonObject = {"verb": verb, "group": right.group, "resource": resource}
    if part:
        attributes["subresource"] = part
    return attributes | ({"namespace": namespace} if namespace else {})
