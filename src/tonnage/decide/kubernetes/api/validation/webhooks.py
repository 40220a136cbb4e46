"""Webhook configurations, and the rules that policies share with them.

Source: pkg/apis/admissionregistration/validation, k8s.io/apiserver pkg/util/webhook (validation.go), v1.35.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import duplicate, invalid, quoted, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, label_selector, one_of_if_set
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, number, text, texts

OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_VERSIONS: Final = ("v1", "v1beta1")
_NO_EFFECTS: Final = ("None", "NoneOnDryRun")
_FORM: Final = "; desired format: https://host[/path]"
_LONGEST_S: Final = 30
_MOST_PORTS: Final = 65535


def webhooks(obj: JsonObject, conditions: Callable[[list[JsonObject], str], FieldErrors]) -> FieldErrors:
    """A configuration of webhooks, validating or mutating; `conditions` looks at those of a webhook."""
    seen_names: set[str] = set()
    for index, hook in enumerate(mappings(obj, "webhooks")):
        path, name = f"webhooks[{index}]", text(hook, "name")
        yield from _webhook(hook, path)
        yield from conditions(mappings(hook, "matchConditions"), f"{path}.matchConditions")
        yield from review_versions(texts(hook, "admissionReviewVersions"), f"{path}.admissionReviewVersions")
        if name and name in seen_names:
            yield duplicate(f"{path}.name", name)
        seen_names.add(name)


def _webhook(hook: JsonObject, path: str) -> FieldErrors:
    yield from _full_name(text(hook, "name"), f"{path}.name")
    for index, rule in enumerate(mappings(hook, "rules")):
        yield from rule_with_operations(rule, f"{path}.rules[{index}]")
    yield from policies(hook, path)
    effects = at(hook, "sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_EFFECTS)}")
    elif effects not in _NO_EFFECTS:
        yield unsupported(f"{path}.sideEffects", effects, _NO_EFFECTS)
    timeout = at(hook, "timeoutSeconds")
    if isinstance(timeout, int) and not 1 <= timeout <= _LONGEST_S:
        yield invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds")
    for key in ("namespaceSelector", "objectSelector"):
        yield from label_selector(mapping(hook, key), f"{path}.{key}")
    yield from one_of_if_set(hook, "reinvocationPolicy", ("IfNeeded", "Never"), path)
    yield from client_config(mapping(hook, "clientConfig"), f"{path}.clientConfig")


def policies(owner: JsonObject, path: str) -> FieldErrors:
    """`failurePolicy` and `matchPolicy`."""
    yield from one_of_if_set(owner, "failurePolicy", ("Fail", "Ignore"), path)
    yield from one_of_if_set(owner, "matchPolicy", ("Equivalent", "Exact"), path)


def _full_name(name: str, path: str) -> FieldErrors:
    if not name:
        yield required(path)
    elif wrong := names.dns_subdomain(name):
        yield invalid(path, name, ",".join(wrong))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def rule_with_operations(rule: JsonObject, path: str) -> FieldErrors:
    """A rule: operations, groups, versions, resources, scope."""
    operations = items(rule, "operations")
    if not operations:
        yield required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        words = "if '*' is present, must not specify other operations"
        yield invalid(f"{path}.operations", operations, words)
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield unsupported(f"{path}.operations[{index}]", operation, OPERATIONS)
    for key, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        entries = items(rule, key)
        if not entries:
            yield required(f"{path}.{key}")
        if len(entries) > 1 and "*" in entries:
            yield invalid(f"{path}.{key}", entries, f"if '*' is present, must not specify other {words}")
        if key == "apiVersions":
            for index, version in enumerate(entries):
                if version == "":
                    yield required(f"{path}.{key}[{index}]")
    yield from _resources(items(rule, "resources"), f"{path}.resources")
    yield from one_of_if_set(rule, "scope", ("*", "Cluster", "Namespaced"), path)


def _resources(resources: list[JsonValue], path: str) -> FieldErrors:
    if not resources:
        yield required(path)
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, written in enumerate(resources):
        if written == "":
            yield required(f"{path}[{index}]")
            continue
        resource, slash, part = str(written).partition("/")
        if not slash:
            plain = written != "*"
            continue
        if resource in whole:
            words = f"if '{resource}/*' is present, must not specify {written}"
            yield invalid(f"{path}[{index}]", written, words)
        if part in everywhere:
            yield invalid(
                f"{path}[{index}]", written, f"if '*/{part}' is present, must not specify {written}"
            )
        if part == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(part)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        words = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, resources, words)


def client_config(client: JsonObject, path: str) -> FieldErrors:
    """Where a webhook listens: a URL or a service."""
    url, service = at(client, "url"), at(client, "service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif isinstance(url, str):
        yield from _url(url, f"{path}.url")
    else:
        yield from _service(mapping(client, "service"), f"{path}.service")


def _url(url: str, path: str) -> FieldErrors:
    if words := _unreadable(url):
        yield required(path, f"url must be a valid URL: parse {quoted(url)}: {words}{_FORM}")
        return
    parts = urlsplit(url)
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        yield invalid(path, host, f"host must be specified{_FORM}")
    if user:
        yield invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _unreadable(url: str) -> str:
    """Why a text is no URL, in Go's words; empty if it is one."""
    if url.startswith(":"):
        return "missing protocol scheme"
    if not re.match("[A-Za-z]", url) and ":" in url.partition("/")[0]:
        return "first path segment in URL cannot contain colon"
    wrong = re.search("%(?![0-9A-Fa-f]{2}).{0,2}", url, re.DOTALL)
    return f"invalid URL escape {quoted(wrong[0])}" if wrong else ""


def _service(service: JsonObject, path: str) -> FieldErrors:
    # The server takes one for the other.
    for key, reported_key in (("namespace", "name"), ("name", "namespace")):
        if not text(service, key):
            yield required(f"{path}.{reported_key}")
    port = number(service, "port")
    if not 1 <= port <= _MOST_PORTS:
        words = f"port is not valid: must be between 1 and {_MOST_PORTS}, inclusive"
        yield invalid(f"{path}.port", port, words)
    written = text(service, "path")
    if written in ("", "/"):
        return
    where = f"{path}.path"
    if written == "//":
        yield invalid(where, written, "segment[0] may not be empty")
        return
    if not written.startswith("/"):
        yield invalid(where, written, "must start with a '/'")
    for index, step in enumerate(written[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(where, written, f"segment[{index}] may not be empty")
            continue
        for wrong in names.dns_subdomain(step):
            yield invalid(where, written, f"segment[{index}]: {wrong}")


def review_versions(versions: list[str], path: str, words: str | None = None) -> FieldErrors:
    """Versions of reviews that a webhook understands. `words`: what is said where there is none."""
    supported = ", ".join(_VERSIONS)
    if not versions:
        yield required(path, f"must specify one of {supported}" if words is None else words)
        return
    seen_versions: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen_versions:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        seen_versions.add(version)
        for wrong in names.dns_label_1035(version):
            yield invalid(f"{path}[{index}]", version, wrong)
    if not seen_versions & {*_VERSIONS}:
        yield invalid(path, list[JsonValue](versions), f"must include at least one of {supported}")
