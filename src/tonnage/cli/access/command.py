"""`tonnage access`: the rights that commands need, as a role to apply; and which of them the user has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.access.objects import as_one, show_objects, yaml_lines
from tonnage.cli.access.unseen import rights_of
from tonnage.cli.cluster import connected
from tonnage.cli.operator.namespaces import agents_namespace_option, operator_namespace_option
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, lines, say
from tonnage.cli.terminal.tables import table
from tonnage.diagnose.access import PAGES, Subjects, role_lines, role_name, role_objects
from tonnage.diagnose.operator_access import OPERATOR_ACCESS
from tonnage.documents.nearest import nearest
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.reading.command_kinds import AGENTS_NAMESPACE, COMMAND_KINDS, WITH_PAGES, kinds_of

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.wire.kinds import Kind

_NO_REVIEWS: Final = (403, 404, 405)
"""How a server answers that has no reviews, or lets the user make none."""
_EVERYWHERE: Final = "everywhere"
_NOWHERE: Final = "no"
_OF_COMMANDS: Final = ", ".join(COMMAND_KINDS)
_OF_OPERATOR: Final = ", ".join(OPERATOR_ACCESS)


@click.command(
    help="Print the ClusterRole that the commands need, or check your own rights.\n\n"
    f"COMMAND is one of {_OF_COMMANDS}; without it the role covers all of them. It grants get and list, "
    "never on Secrets or ConfigMaps; of metrics cluster alone watch, too. With --namespace it is a Role for "
    "that namespace. For top there is a Role with get on pods/proxy, too, for the agents' namespace, which "
    "the role of all commands has not.\n\n"
    f"Or it is one of {_OF_OPERATOR}, which the role of all commands leaves out: they list ConfigMaps, patch "
    "Nodes, or read logs. Theirs are two ClusterRoles, one for the cluster and one to bind in the namespaces "
    "of operator and agents.",
    epilog=examples(
        "tonnage access | kubectl apply -f -",
        "tonnage access explain --user jane | kubectl apply -f -   # role and binding",
        "tonnage access status --service-account ml:ci -o json",
        "tonnage access operator adopt --user jane | kubectl apply -f -",
        "tonnage access --check -n ml                              # what you may read, and what you may not",
    ),
)
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@click.option("--user", "users", multiple=True, metavar="NAME", help="Bind the role to a user. Repeatable.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Bind the role to a group. Repeatable."
)
@click.option(
    "--service-account",
    "accounts",
    multiple=True,
    metavar="NAMESPACE:NAME",
    help="Bind the role to a service account. Repeatable.",
)
@operator_namespace_option("Where NVIDIA's operator is; for the commands of operator.")
@agents_namespace_option
@click.option("--check", is_flag=True, help="Ask the cluster which of these rights you have.")
@common_options(output=("text", "yaml", "json"), cluster=True, namespace=True)
def command(
    common: Common,
    *,
    words: tuple[str, ...],
    check: bool,
    operator_namespace: str,
    agents_namespace: str,
    **people: tuple[str, ...],
) -> int:
    """Exit status 1 when --check finds a right that is lacking."""
    name = " ".join(words)
    if name and name not in (*COMMAND_KINDS, *OPERATOR_ACCESS):
        raise click.UsageError(_unknown(words))
    wrong = [account for account in people["accounts"] if not all(account.partition(":"))]
    if wrong:
        raise click.UsageError(f"--service-account {wrong[0][:100]}: write NAMESPACE:NAME")
    subjects = Subjects(**people)
    if name in OPERATOR_ACCESS:
        from tonnage.cli.access.operator_commands import check_operator_access, show_operator_roles

        if common.namespace:
            raise click.UsageError("--namespace: name --operator-namespace and --agents-namespace instead")
        namespaces = (operator_namespace, agents_namespace)
        if check:
            return asyncio.run(check_operator_access(common, name, namespaces))
        show_operator_roles(common, name, subjects, namespaces)
        return 0
    if check:
        return asyncio.run(_check(common, name))
    _show_role(common, name, subjects)
    return 0


def _unknown(words: tuple[str, ...]) -> str:
    """Why a command has no role, with those that have one; of a family, its own."""
    of_family = [name for name in (*COMMAND_KINDS, *OPERATOR_ACCESS) if name.split()[0] == words[0]]
    shown = " ".join(words)[:60]
    if not of_family:
        return f"{shown} reads no cluster, or is no command: name one of {_OF_COMMANDS}, {_OF_OPERATOR}"
    if len(words) == 1:
        return f"{shown} has no role of its own: {nearest(shown, list(of_family))}"
    rest = " ".join(words[1:])[:60]
    parts = [part for name in of_family if (part := name.partition(" ")[2])]
    return f"{words[0]} has no command {rest}: {nearest(rest, parts) or f'write {words[0]} alone'}"


def _show_role(common: Common, name: str, subjects: Subjects) -> None:
    objects = role_objects(role_name(name), rights_of(name), subjects, common.namespace or "")
    if name in WITH_PAGES:
        objects += role_objects(f"{role_name(name)}-pages", [PAGES], subjects, AGENTS_NAMESPACE)
    show_objects(common, objects, role_lines)


async def _check(common: Common, name: str) -> int:
    """What is lacking is shown; exit status 1 where something is."""
    async with connected(common) as api:
        extents = await _extents(api, kinds_of(name), common.namespace or api.namespace or "default")
        pages = await _pages(api) if name in WITH_PAGES else None
    return _show_check(common, name, extents, pages)


async def _pages(api: HttpKubernetes) -> bool | None:
    """Whether the agents' pages may be read; None where the server answers no reviews."""
    from tonnage.adapters.kubernetes.access_reviews import pages_readable

    try:
        return await pages_readable(api, AGENTS_NAMESPACE)
    except ApiError as error:
        if error.code not in _NO_REVIEWS:
            raise
        return None


async def _extents(api: HttpKubernetes, kinds: Sequence[Kind[Any]], namespace: str) -> dict[Kind[Any], str]:
    """How far each kind may be listed: everywhere, in one namespace (its name), or nowhere."""
    from tonnage.adapters.kubernetes.access_reviews import listable, listed_one

    may_list: Callable[..., Awaitable[tuple[bool, ...]]] = listable
    try:
        allowed = await listable(api, kinds, None)
    except ApiError as error:
        if error.code not in _NO_REVIEWS:
            raise
        say(f"The API server answers no access reviews: {error.message}", err=True)
        say("Each kind was listed instead, one object of it.", err=True)
        may_list = listed_one
        allowed = await listed_one(api, kinds, None)
    everywhere = dict(zip(kinds, allowed, strict=True))
    others = [kind for kind in kinds if kind.namespaced and not everywhere[kind]]
    within = dict(zip(others, await may_list(api, others, namespace), strict=True))
    return {
        kind: _EVERYWHERE if everywhere[kind] else f"in {namespace}" if within.get(kind) else _NOWHERE
        for kind in kinds
    }


def _show_check(common: Common, name: str, extents: dict[Kind[Any], str], pages: bool | None) -> int:
    """`pages`: whether those of the agents may be read; None where nobody asks or the server is silent."""
    lacking = [kind.kind for kind, extent in extents.items() if extent != _EVERYWHERE]
    roles = role_objects(role_name(name), rights_of(name, lacking), Subjects()) if lacking else []
    if pages is False:
        roles += role_objects(f"{role_name(name)}-pages", [PAGES], Subjects(), AGENTS_NAMESPACE)
    of_pages = None if pages is None else f"in {AGENTS_NAMESPACE}" if pages else _NOWHERE
    if common.output != "text":
        items: list[JsonValue] = [
            {"group": kind.group, "resource": kind.plural, "list": extent} for kind, extent in extents.items()
        ]
        if of_pages is not None:
            items.append({"group": "", "resource": PAGES.resource, "get": of_pages})
        answer: JsonObject = {"items": items, "lacking": as_one(roles)}
        emit(answer, common.output)
    else:
        rows = [(right.name, extents[kind]) for right, kind in zip(rights_of(name), extents, strict=True)]
        if of_pages is not None:
            rows.append((f"{PAGES.resource} (get)", of_pages))
        say(table(("RESOURCE", "LIST"), rows))
        for role in roles:
            say(lines(["", "This role grants what is missing:", "", *yaml_lines(role, role_lines)]))
    return 1 if roles else 0
