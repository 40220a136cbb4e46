"""The functions of Kubernetes' CEL: how they are declared, and the environment in which they run.

An expression is compiled where everything has its type, and runs where values are what they are: there the
functions look themselves. Names and overloads are the server's, since costs go by them.

Source: k8s.io/apiserver pkg/cel/environment (base.go), pkg/cel/library (1.35.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations
from typing import Final

from tonnage.decide.kubernetes.cel.function_library.functions import FUNCTIONS, native_arguments
from tonnage.decide.kubernetes.cel.function_library.host_functions import (
    DECISION,
    FORMAT,
    FORMATS,
    GROUP_CHECK,
    PATH_CHECK,
    CelHost,
    functions_asking,
)
from tonnage.decide.kubernetes.cel.types.kinds import AUTHORIZER, RESOURCE_CHECK
from tonnage.decide.kubernetes.cel.types.messages import declared_pool, held_pool
from tonnage.decide.kubernetes.cel.types.untyped import LibraryObject
from tonnage.decide.kubernetes.claims.cel_values import QUANTITY, SEMVER

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_TO_STRING: Final = ("string", "bytes", "bool", "double", "duration")
_SUMMABLE: Final = ("int", "uint", "double", "duration")
_IP, _CIDR, _URL = "net.IP", "net.CIDR", "kubernetes.URL"

_OWN: Final[tuple[tuple[str, str, str], ...]] = (
    ("string_to_url", "url(string)", _URL),
    ("is_url_string", "isURL(string)", "bool"),
    ("url_get_scheme", f"{_URL}.getScheme()", "string"),
    ("url_get_host", f"{_URL}.getHost()", "string"),
    ("url_get_hostname", f"{_URL}.getHostname()", "string"),
    ("url_get_port", f"{_URL}.getPort()", "string"),
    ("url_get_escaped_path", f"{_URL}.getEscapedPath()", "string"),
    ("url_get_query", f"{_URL}.getQuery()", "map<string,list<string>>"),
    ("string_find_string", "string.find(string)", "string"),
    ("string_find_all_string", "string.findAll(string)", "list<string>"),
    ("string_find_all_string_int", "string.findAll(string,int)", "list<string>"),
    ("string_to_ip", "ip(string)", _IP),
    ("is_ip", "isIP(string)", "bool"),
    ("ip_is_canonical", "ip.isCanonical(string)", "bool"),
    ("ip_family", f"{_IP}.family()", "int"),
    ("ip_is_unspecified", f"{_IP}.isUnspecified()", "bool"),
    ("ip_is_loopback", f"{_IP}.isLoopback()", "bool"),
    ("ip_is_link_local_multicast", f"{_IP}.isLinkLocalMulticast()", "bool"),
    ("ip_is_link_local_unicast", f"{_IP}.isLinkLocalUnicast()", "bool"),
    ("ip_is_global_unicast", f"{_IP}.isGlobalUnicast()", "bool"),
    ("string_to_cidr", "cidr(string)", _CIDR),
    ("is_cidr", "isCIDR(string)", "bool"),
    ("cidr_contains_ip_string", f"{_CIDR}.containsIP(string)", "bool"),
    ("cidr_contains_ip_ip", f"{_CIDR}.containsIP({_IP})", "bool"),
    ("cidr_contains_cidr_string", f"{_CIDR}.containsCIDR(string)", "bool"),
    ("cidr_contains_cidr", f"{_CIDR}.containsCIDR({_CIDR})", "bool"),
    ("cidr_ip", f"{_CIDR}.ip()", _IP),
    ("cidr_prefix_length", f"{_CIDR}.prefixLength()", "int"),
    ("cidr_masked", f"{_CIDR}.masked()", _CIDR),
    ("ip_to_string", f"string({_IP})", "string"),
    ("cidr_to_string", f"string({_CIDR})", "string"),
    ("timestamp_to_string", "string(timestamp)", "string"),
    ("string_to_quantity", "quantity(string)", QUANTITY),
    ("is_quantity_string", "isQuantity(string)", "bool"),
    ("quantity_sign", f"sign({QUANTITY})", "int"),
    ("quantity_is_integer", f"{QUANTITY}.isInteger()", "bool"),
    ("quantity_as_integer", f"{QUANTITY}.asInteger()", "int"),
    ("quantity_as_approximate_float", f"{QUANTITY}.asApproximateFloat()", "double"),
    ("quantity_add", f"{QUANTITY}.add({QUANTITY})", QUANTITY),
    ("quantity_add_int", f"{QUANTITY}.add(int)", QUANTITY),
    ("quantity_sub", f"{QUANTITY}.sub({QUANTITY})", QUANTITY),
    ("quantity_sub_int", f"{QUANTITY}.sub(int)", QUANTITY),
    ("quantity_compare_to", f"{QUANTITY}.compareTo({QUANTITY})", "int"),
    ("quantity_is_greater_than", f"{QUANTITY}.isGreaterThan({QUANTITY})", "bool"),
    ("quantity_is_less_than", f"{QUANTITY}.isLessThan({QUANTITY})", "bool"),
    ("string_to_semver", "semver(string)", SEMVER),
    ("string_bool_to_semver", "semver(string,bool)", SEMVER),
    ("is_semver_string", "isSemver(string)", "bool"),
    ("is_semver_string_bool", "isSemver(string,bool)", "bool"),
    ("semver_compare_to", f"{SEMVER}.compareTo({SEMVER})", "int"),
    ("semver_is_greater_than", f"{SEMVER}.isGreaterThan({SEMVER})", "bool"),
    ("semver_is_less_than", f"{SEMVER}.isLessThan({SEMVER})", "bool"),
    ("semver_major", f"{SEMVER}.major()", "int"),
    ("semver_minor", f"{SEMVER}.minor()", "int"),
    ("semver_patch", f"{SEMVER}.patch()", "int"),
    *(
        (f"list_{type_name}_is_sorted_bool", f"list<{type_name}>.isSorted()", "bool")
        for type_name in _COMPARABLE
    ),
    *(
        (f"list_{type_name}_sum_{type_name}", f"list<{type_name}>.sum()", type_name)
        for type_name in _SUMMABLE
    ),
    *(
        (f"list_{type_name}_max_{type_name}", f"list<{type_name}>.max()", type_name)
        for type_name in _COMPARABLE
    ),
    *(
        (f"list_{type_name}_min_{type_name}", f"list<{type_name}>.min()", type_name)
        for type_name in _COMPARABLE
    ),
    ("list_a_index_of_int", "list<~T>.indexOf(~T)", "int"),
    ("list_a_last_index_of_int", "list<~T>.lastIndexOf(~T)", "int"),
    ("string_index_of_string", "string.indexOf(string)", "int"),
    ("string_index_of_string_int", "string.indexOf(string,int)", "int"),
    ("string_last_index_of_string", "string.lastIndexOf(string)", "int"),
    ("string_last_index_of_string_int", "string.lastIndexOf(string,int)", "int"),
    ("string_format", "string.format(list<dyn>)", "string"),
    ("string_char_at_int", "string.charAt(int)", "string"),
    ("string_substring_int", "string.substring(int)", "string"),
    ("string_substring_int_int", "string.substring(int,int)", "string"),
    *((f"format.{type_name}", f"format.{type_name}()", FORMAT) for type_name in FORMATS),
    ("format-named", "format.named(string)", f"optional_type<{FORMAT}>"),
    ("format-validate", f"{FORMAT}.validate(string)", "optional_type<list<string>>"),
    ("authorizer_path", f"{AUTHORIZER}.path(string)", PATH_CHECK),
    ("authorizer_group", f"{AUTHORIZER}.group(string)", GROUP_CHECK),
    ("authorizer_serviceaccount", f"{AUTHORIZER}.serviceAccount(string,string)", AUTHORIZER),
    ("groupcheck_resource", f"{GROUP_CHECK}.resource(string)", RESOURCE_CHECK),
    ("resourcecheck_subresource", f"{RESOURCE_CHECK}.subresource(string)", RESOURCE_CHECK),
    ("resourcecheck_namespace", f"{RESOURCE_CHECK}.namespace(string)", RESOURCE_CHECK),
    ("resourcecheck_name", f"{RESOURCE_CHECK}.name(string)", RESOURCE_CHECK),
    ("authorizer_fieldselector", f"{RESOURCE_CHECK}.fieldSelector(string)", RESOURCE_CHECK),
    ("authorizer_labelselector", f"{RESOURCE_CHECK}.labelSelector(string)", RESOURCE_CHECK),
    ("pathcheck_check", f"{PATH_CHECK}.check(string)", DECISION),
    ("resourcecheck_check", f"{RESOURCE_CHECK}.check(string)", DECISION),
    ("decision_errored", f"{DECISION}.errored()", "bool"),
    ("decision_error", f"{DECISION}.error()", "string"),
    ("decision_allowed", f"{DECISION}.allowed()", "bool"),
    ("decision_reason", f"{DECISION}.reason()", "string"),
)
_ORDERS: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_NUMBERS: Final = {"int": "int64", "uint": "uint64", "double": "double"}
_ORDERED: Final = tuple(
    (f"{order}_{_NUMBERS.get(type_name, type_name)}", f"{name}({type_name},{type_name})", "bool")
    for name, order in _ORDERS.items()
    for type_name in _COMPARABLE
) + tuple(
    (f"{order}_{_NUMBERS[type_name]}_{_NUMBERS[other]}", f"{name}({type_name},{other})", "bool")
    for name, order in _ORDERS.items()
    for type_name, other in permutations(_NUMBERS, 2)
)
"""Numbers are compared with numbers of any kind."""
_OF_THE_LIBRARY: Final[tuple[tuple[str, str, str], ...]] = (
    ("list_join", "list<string>.join()", "string"),
    ("list_join_string", "list<string>.join(string)", "string"),
    ("string_lower_ascii", "string.lowerAscii()", "string"),
    ("string_upper_ascii", "string.upperAscii()", "string"),
    ("string_replace_string_string", "string.replace(string,string)", "string"),
    ("string_replace_string_string_int", "string.replace(string,string,int)", "string"),
    ("string_split_string", "string.split(string)", "list<string>"),
    ("string_split_string_int", "string.split(string,int)", "list<string>"),
    ("string_trim", "string.trim()", "string"),
    ("strings_quote", "strings.quote(string)", "string"),
    *_ORDERED,
    *((f"{type_name}64_to_string", f"string({type_name})", "string") for type_name in ("int", "uint")),
    *((f"{type_name}_to_string", f"string({type_name})", "string") for type_name in _TO_STRING),
)
"""What the library has, too, but under declarations that leave no room for more of the same name."""
_EXCLUDED: Final = ("string", *(f"'{type_name}'" for type_name in _ORDERS))
_SPACES: Final = frozenset({"ip", "format", "strings"})
_EXTENSIONS: Final = (("two-var-comprehensions", ""), ("lists", "2"), ("sets", ""), ("optional", ""))


def _extended(version: str) -> list[str]:
    """Lines of a configuration with the libraries; `version` is that of strings, empty for none."""
    lines = ["name: kubernetes", "extensions:"]
    for name, number in (*_EXTENSIONS, *([("strings", version)] if version else [])):
        lines += [f"- name: {name}", *([f"  version: {number}"] if number else [])]
    return lines


@cache
def _declarations() -> str:
    """The configuration of all that compiles: the library reads types with parameters from nowhere else."""
    lines = _extended("")
    lines += [
        "stdlib:",
        "  exclude_functions:",
        *(f"  - name: {excluded}" for excluded in _EXCLUDED),
        "functions:",
    ]
    by_name: dict[str, list[str]] = {}
    for overload, signature, return_type in (*_OWN, *_OF_THE_LIBRARY):
        name, kinds, is_member = _parts(signature)
        written = f"  - id: {overload}\n    return: '{return_type}'\n"
        if is_member or name.isalnum():
            written += f"    signature: '{signature}'"
        else:
            written += f"    args: [{', '.join('{type_name: ' + kind + '}' for kind in kinds)}]"
        by_name.setdefault(name, []).append(written)
    for name, overloads in by_name.items():
        lines += [f"- name: '{name}'", "  overloads:", *overloads]
    return "\n".join(lines)


def _parts(signature: str) -> tuple[str, tuple[str, ...], bool]:
    """
    >>> _parts("net.IP.family()"), _parts("ip.isCanonical(string)")
    (('family', ('net.IP',), True), ('ip.isCanonical', ('string',), False))
    """
    head, _, inside = signature.rpartition(")")[0].partition("(")
    parameters = tuple(parameter for parameter in inside.split(",") if parameter)
    owner, _, name = head.rpartition(".")
    if not owner or owner in _SPACES:
        return head, parameters, False
    return name, (owner, *parameters), True


def checker(variables: Mapping[str, str], file: bytes) -> LibraryObject:
    """The environment in which expressions are compiled about variables of these types."""
    from cel_expr_python import cel

    lines = [f"- name: {name}\n  type: '{signature}'" for name, signature in variables.items()]
    written = "\n".join([_declarations(), *(["variables:", *lines] if lines else [])])
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(written), descriptor_pool=declared_pool(file))


def _arities() -> Iterator[tuple[str, int]]:
    for _, signature, _ in _OWN:
        name, parameters, _ = _parts(signature)
        yield name, len(parameters)
    yield from (("@mapInsert", 2), ("@mapInsert", 3))


@cache
def runtime_names() -> Mapping[str, str]:
    """What a function of ours is called where it runs, by the overload that was compiled."""
    return {overload: f"@{_parts(signature)[0]}" for overload, signature, _ in _OWN} | {
        "@mapInsert_map_key_value": "@mapInsert",
        "@mapInsert_map_map": "@mapInsert",
    }


@cache
def runtime() -> LibraryObject:
    """The environment in which what was compiled runs and asks nobody."""
    return runtime_of(None)


def runtime_of(host: CelHost | None) -> LibraryObject:
    """The environment in which what was compiled runs and asks this host; it takes a millisecond to make."""
    from cel_expr_python import cel

    implementations = {**FUNCTIONS, **functions_asking(host)}
    anything = cel.Type("google.protobuf.Any")
    functions: dict[str, dict[int, LibraryObject]] = {}
    for name, count in _arities():
        called = f"@{name}".replace("@@", "@")
        functions.setdefault(called, {})[count] = cel.Overload(
            f"{called}_{count}",
            cel.Type.DYN,
            [anything] * count,
            is_member=False,
            impl=native_arguments(implementations[name]),
        )
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("\n".join(_extended("2"))),
        descriptor_pool=held_pool(),
        functions=[cel.FunctionDecl(name, list(kinds.values())) for name, kinds in functions.items()],
    )
