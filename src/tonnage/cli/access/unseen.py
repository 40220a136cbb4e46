"""What a command says of objects that it may not see: their names, and the role that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tonnage.cli.terminal.output import lines, say
from tonnage.diagnose.access import VERBS, ResourceRight, Subjects, role_lines, role_name, role_objects
from tonnage.diagnose.missing_kinds import unread_remedy, unread_text
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.verdict import Explanation
from tonnage.reading.command_kinds import WATCHING, kinds_of

_MOST_NAMED = 4
_ONE_NAMESPACE = "Name a namespace if you may read one: -n NAMESPACE."


def rights_of(command: str, forbidden: Iterable[str] | None = None) -> tuple[ResourceRight, ...]:
    """The rights that a command needs; with `forbidden`, to those kinds alone."""
    names = None if forbidden is None else frozenset(forbidden)
    verbs = (*VERBS, "watch") if command in WATCHING else VERBS
    return tuple(
        ResourceRight(kind.group, kind.plural, kind.namespaced, verbs)
        for kind in kinds_of(command)
        if names is None or kind.kind in names
    )


def say_unseen(snapshot: Snapshot, command: str) -> None:
    """Name on stderr what the API server refused, and the ClusterRole that grants it."""
    say_forbidden(snapshot.forbidden, snapshot.scopes, command)


def say_forbidden(forbidden: Iterable[str], scopes: Mapping[str, str], command: str) -> None:
    """The same of kinds. `scopes`: those that were read in one namespace, with its name."""
    rights = rights_of(command, forbidden)
    if not rights:
        return
    elsewhere = [right for right in rights_of(command, scopes) if right in rights]
    nowhere = [right.name for right in rights if right not in elsewhere]
    if nowhere:
        say(f"The API server does not let you read: {listed(nowhere, _MOST_NAMED)}.", err=True)
    if elsewhere:
        names, namespaces = [right.name for right in elsewhere], sorted({*scopes.values()})
        say(f"Read in namespace {', '.join(namespaces)} only: {listed(names, _MOST_NAMED)}.", err=True)
    elif any(right.namespaced for right in rights):
        say(_ONE_NAMESPACE, err=True)
    (role,) = role_objects(role_name(command), rights, Subjects())
    say(
        f"What depends on the rest is UNKNOWN. This role grants access; "
        f"`tonnage access {command} --user NAME` prints it with a binding:",
        err=True,
    )
    say(lines(["", *role_lines(role)]), err=True)


def nothing_seen(error: ApiError, command: str, namespace: str) -> ClusterError:
    """The error where the server lets nothing be read that a command needs."""
    where = f"namespace {namespace}" if namespace else ""
    return ClusterError(
        Problem(
            f"you may not read anything that {command} needs",
            where,
            error.message,
            f"ask an administrator: tonnage access {command} --user NAME | kubectl apply -f -",
        )
    )


def not_seen(kind: str, snapshot: Snapshot, subject: str, command: str) -> ClusterError:
    """The error where what was asked about is of a kind that may not be listed."""
    problem = f"{subject} was not read"
    why = unread_text(kind, snapshot)
    if kind not in snapshot.forbidden:
        return ClusterError(Problem(problem, "", why, unread_remedy(kind, snapshot)))
    rights = rights_of(command, snapshot.forbidden)
    (role,) = role_objects(role_name(command), rights, Subjects())
    begin = "" if snapshot.scopes else "name a namespace that you may read: -n NAMESPACE; or "
    remedy = "\n".join([f"{begin}ask for this role:", *role_lines(role)])
    return ClusterError(Problem(problem, "", why, remedy))


def lacks_objects(explanation: Explanation) -> bool:
    """Whether something in an explanation, or in that of a pod in it, hangs on objects that were not read."""
    return any(isinstance(reason, KindNotRead) for reason in explanation.reasons) or any(
        lacks_objects(group.explanation) for group in explanation.pods
    )
