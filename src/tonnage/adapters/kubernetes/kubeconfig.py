"""Which cluster to speak to: kubeconfig files as kubectl finds and merges them, or a pod's service account.

Several files in `KUBECONFIG` and the order of places are as kubectl has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tonnage.adapters.kubernetes.kubeconfig_entries import ClusterEntry, ContextEntry, UserEntry
from tonnage.documents.yaml.reader import MarkedDocument, read_yaml_all
from tonnage.documents.yaml.syntax import NO_YAML
from tonnage.model.errors import ClusterError, ConfigError, Problem, not_utf8, words_of

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MOST_BYTES: Final = 4 << 20
_NAMESPACE: Final = "default"
_NO_YAML: Final = "the kubeconfig is not valid YAML"
_FILES: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A cluster to speak to, as whom, and how."""

    context: str
    namespace: str
    cluster: ClusterEntry
    user: UserEntry
    where: str
    """The file or place that said so, for messages."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers by which the user acts as another: `as`, `as-uid`, `as-groups`, `as-user-extra`."""


def target(
    kubeconfig: Path | None,
    context: str | None,
    environ: Mapping[str, str],
    *,
    account: Path = SERVICE_ACCOUNT,
) -> ClusterTarget:
    """The explicit file, else `KUBECONFIG`, else `~/.kube/config`, else the pod's own service account.

    `account` is where kubelet mounts that.

    Raises ConfigError for a kubeconfig that cannot be used, ClusterError where there is none.
    """
    paths = _paths(kubeconfig, environ)
    if not paths:
        if "KUBERNETES_SERVICE_HOST" in environ:
            return _in_cluster(environ, account)
        raise ClusterError(
            Problem(
                "no cluster is configured",
                why="neither --kubeconfig nor KUBECONFIG names a file, and ~/.kube/config does not exist",
                remedy="start one with `tonnage up`, or name a kubeconfig with --kubeconfig FILE",
            )
        )
    merged = _merged(paths)
    where = ":".join(str(path) for path in paths)
    return _chosen(merged, context, where)


def _paths(kubeconfig: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise ConfigError(
                Problem(
                    "the kubeconfig does not exist",
                    where=str(kubeconfig),
                    remedy="check the path, or remove --kubeconfig to use KUBECONFIG or ~/.kube/config",
                )
            )
        return [kubeconfig]
    named = [Path(text) for text in environ.get("KUBECONFIG", "").split(os.pathsep) if text]
    if named:
        there = [path for path in named if path.is_file()]
        if not there:
            raise ConfigError(
                Problem(
                    "none of the files in KUBECONFIG exists",
                    where=environ["KUBECONFIG"],
                    remedy="unset KUBECONFIG, or point it at the kubeconfig of a running cluster",
                )
            )
        return there
    try:
        home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    except RuntimeError:  # the user of a container may have no home
        return []
    return [home] if home.is_file() else []


def _in_cluster(environ: Mapping[str, str], account: Path) -> ClusterTarget:
    """The API server by the variables that kubelet sets, as the account whose files it mounts and renews."""
    try:
        host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
        namespace = (account / "namespace").read_text(encoding="utf-8").strip()
        for needed in ("token", "ca.crt"):
            (account / needed).read_bytes()
    except (KeyError, OSError, UnicodeError) as error:
        why = f"{error} is not set" if isinstance(error, KeyError) else words_of(error)
        remedy = "set automountServiceAccountToken: true on the pod or its service account"
        raise ConfigError(
            Problem("this pod has no usable service account", str(account), why, remedy)
        ) from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    cluster = ClusterEntry(server=server, certificate_authority=str(account / "ca.crt"))
    user = UserEntry(token_file=str(account / "token"))
    return ClusterTarget("default", namespace or _NAMESPACE, cluster, user, "the pod's service account")


def _merged(paths: list[Path]) -> dict[str, Any]:
    """All files as one: the first to name a thing wins, relative paths are of the file that they stand in."""
    merged: dict[str, Any] = {"clusters": {}, "contexts": {}, "users": {}, "current-context": None}
    for path in paths:
        document = _document(path)
        current = document.get("current-context")
        if not isinstance(current, str | None):
            raise _malformed(path, "`current-context` must be a name")
        merged["current-context"] = merged["current-context"] or current
        for section, kind in (("clusters", "cluster"), ("contexts", "context"), ("users", "user")):
            entries = document.get(section) or []
            if not isinstance(entries, list):
                raise _malformed(path, f"`{section}` must be a list")
            for entry in entries:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise _malformed(path, f"every entry of `{section}` must have a name")
                body = entry.get(kind) or {}
                if not isinstance(body, dict):
                    raise _malformed(path, f"`{kind}` of {entry['name']!r} must be a mapping")
                merged[section].setdefault(entry["name"], _with_absolute_paths(body, kind, path))
    return merged


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise _malformed(path, f"it is larger than {_MOST_BYTES} bytes")
        documents = _documents(text.decode("utf-8"), str(path))
    except OSError as error:
        why = words_of(error)
        raise ConfigError(Problem("the kubeconfig cannot be read", where=str(path), why=why)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, str(path))) from None
    document = documents[0].value if len(documents) == 1 else None
    if not isinstance(document, dict):
        raise _malformed(
            path, "it is not a mapping" if len(documents) < 2 else "it has more than one document"
        )
    return document


def _documents(text: str, source: str) -> tuple[MarkedDocument, ...]:
    """Raises ConfigError: no YAML, or more than is read."""
    try:
        return read_yaml_all(text, source=source)[0]  # kubectl takes the last of a key that stands twice
    except ConfigError as error:
        problems = (
            replace(problem, what=_NO_YAML) if problem.what == NO_YAML else problem
            for problem in error.problems
        )
        raise ConfigError(*problems) from None


def _malformed(path: Path, why: str) -> ConfigError:
    return ConfigError(Problem("the kubeconfig cannot be used", where=str(path), why=why))


def _with_absolute_paths(body: dict[str, Any], kind: str, path: Path) -> dict[str, Any]:
    absolute = dict(body)
    for key in _FILES.get(kind, ()):
        if isinstance(absolute.get(key), str) and absolute[key]:
            absolute[key] = str(path.absolute().parent / absolute[key])
    return absolute


def single_context(kubeconfig: Path, context: str | None) -> dict[str, Any]:
    """The file with one context alone, the current one or `context`; its paths absolute.

    Raises ConfigError for a kubeconfig that cannot be used.
    """
    document = _single(_merged(_paths(kubeconfig, {})), context, str(kubeconfig))
    return {"apiVersion": "v1", "kind": "Config", **document}


def _single(merged: dict[str, Any], context: str | None, where: str) -> dict[str, Any]:
    name = context or merged["current-context"]
    chosen = merged["contexts"].get(name)
    if chosen is None:
        names = ", ".join(sorted(merged["contexts"])) or "none"
        problem = f"unknown context {name!r}" if name else "current-context is not set"
        remedy = f"choose one with --context; known: {names}"
        raise ConfigError(Problem(problem, where=where, remedy=remedy))
    cluster = merged["clusters"].get(str(chosen.get("cluster")))
    if cluster is None or not cluster.get("server"):
        problem = f"context {name!r} names a cluster without a server: {chosen.get('cluster')!r}"
        raise ConfigError(
            Problem(problem, where=where, remedy="add the cluster with its `server` to the file")
        )
    user = merged["users"].get(str(chosen.get("user")), {})
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {**chosen, "cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }


def _chosen(merged: dict[str, Any], context: str | None, where: str) -> ClusterTarget:
    document = _single(merged, context, where)
    user = document["users"][0]["user"]
    try:
        chosen = msgspec.convert(document["contexts"][0]["context"], ContextEntry)
        entries = (
            msgspec.convert(document["clusters"][0]["cluster"], ClusterEntry),
            msgspec.convert(user, UserEntry),
        )
    except msgspec.ValidationError as error:
        raise ConfigError(Problem("the kubeconfig cannot be used", where=where, why=str(error))) from None
    impersonation = tuple(_impersonation(user, where))
    return ClusterTarget(
        document["current-context"], chosen.namespace or _NAMESPACE, *entries, where, impersonation
    )


def _impersonation(user: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """What kubectl sends for a user who acts as another.

    Source: client-go transport/round_trippers.go (impersonatingRoundTripper), v1.35.
    """
    extra = user.get("as-user-extra") or {}
    lists = {"Impersonate-Group": user.get("as-groups") or []}
    if isinstance(extra, dict):
        lists |= {f"Impersonate-Extra-{quote(str(key).lower(), safe='')}": extra[key] for key in extra}
    named = {"Impersonate-User": user.get("as"), "Impersonate-Uid": user.get("as-uid")}
    headers = [(key, value) for key, value in named.items() if value]
    headers += [(key, value) for key, values in lists.items() for value in _texts(values, where)]
    if headers and not user.get("as"):
        why = "`as-uid`, `as-groups` and `as-user-extra` need `as`, the user to act as"
        raise ConfigError(Problem("the kubeconfig cannot be used", where=where, why=why))
    for key, value in headers:
        if not isinstance(value, str) or not value.isprintable():
            why = f"{key} must be text without control characters"
            raise ConfigError(Problem("the kubeconfig cannot be used", where=where, why=why))
        yield key, value


def _texts(values: object, where: str) -> list[Any]:
    if isinstance(values, list):
        return values
    raise ConfigError(
        Problem(
            "the kubeconfig cannot be used",
            where=where,
            why="`as-groups` and `as-user-extra` must hold lists",
        )
    )
