"""The two environments of CEL: one that compiles selectors of a release, one that evaluates them.

The compiling one has every type as Kubernetes declares it, and so its errors; the evaluating one takes values
as they are, because the library tells functions apart by coarser types than Kubernetes does.

Source: k8s.io/apiserver/pkg/cel/environment, k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from tonnage.decide.kubernetes.cel.types.untyped import LibraryObject
from tonnage.decide.kubernetes.claims.cel_tree import ATTRIBUTES, CAPACITY, PADDED
from tonnage.decide.kubernetes.claims.cel_values import DEVICE, FUNCTIONS, QUANTITY, SEMVER, messages

_OVERLOADS: Final[Mapping[str, tuple[str, ...]]] = {
    "quantity": ("quantity(string) Q",),
    "isQuantity": ("isQuantity(string) bool",),
    "sign": ("sign(Q) int",),
    "isInteger": ("Q.isInteger() bool",),
    "asInteger": ("Q.asInteger() int",),
    "asApproximateFloat": ("Q.asApproximateFloat() double",),
    "add": ("Q.add(Q) Q", "Q.add(int) Q"),
    "sub": ("Q.sub(Q) Q", "Q.sub(int) Q"),
    "compareTo": ("Q.compareTo(Q) int", "S.compareTo(S) int"),
    "isGreaterThan": ("Q.isGreaterThan(Q) bool", "S.isGreaterThan(S) bool"),
    "isLessThan": ("Q.isLessThan(Q) bool", "S.isLessThan(S) bool"),
    "semver": ("semver(string) S", "semver(string,bool) S"),
    "isSemver": ("isSemver(string) bool", "isSemver(string,bool) bool"),
    "major": ("S.major() int",),
    "minor": ("S.minor() int",),
    "patch": ("S.patch() int",),
    "sets.contains": ("sets.contains(list,list) bool",),
    "sets.equivalent": ("sets.equivalent(list,list) bool",),
    "sets.intersects": ("sets.intersects(list,list) bool",),
    "sum": ("ints.sum() int", "doubles.sum() double"),
    "min": ("ints.min() int", "doubles.min() double", "strings.min() string"),
    "max": ("ints.max() int", "doubles.max() double", "strings.max() string"),
    "isSorted": ("ints.isSorted() bool", "doubles.isSorted() bool", "strings.isSorted() bool"),
    "includes": ("dyn.includes(dyn) bool",),
}
_SINCE: Final = {"includes": 36}
_PRESENT: Final = 35


def _types(minor: int) -> dict[str, LibraryObject]:
    from cel_expr_python import cel

    types = cel.Type
    unknown = types.DYN if minor > 36 else types("google.protobuf.Any")
    return {
        "Q": types(QUANTITY),
        "S": types(SEMVER),
        "bool": types.BOOL,
        "int": types.INT,
        "double": types.DOUBLE,
        "string": types.STRING,
        "dyn": types.DYN,
        "list": types.List(types.DYN),
        "ints": types.List(types.INT),
        "doubles": types.List(types.DOUBLE),
        "strings": types.List(types.STRING),
        "attributes": types.Map(types.STRING, types.Map(types.STRING, unknown)),
        "capacity": types.Map(types.STRING, types.Map(types.STRING, types(QUANTITY))),
    }


def extensions(*, bindings: bool = True) -> list[LibraryObject]:
    """Extension libraries; only selectors of devices have those of `cel.bind`."""
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    bound = [ext_bindings.ExtBindings()] if bindings else []
    return [*bound, ext_optional.ExtOptional(), ext_strings.ExtStrings()]


@cache
def checker(minor: int) -> LibraryObject:
    """The environment in which expressions are compiled: everything has its type, nothing can run."""
    from cel_expr_python import cel

    types = _types(minor)
    functions = []
    for name, shapes in _OVERLOADS.items():
        if minor < _SINCE.get(name, 0):
            continue
        overloads = []
        for index, shape in enumerate(shapes):
            target, parameters, return_type = _shape(shape)
            kinds = [types[kind] for kind in (*target, *parameters)]
            overloads.append(
                cel.Overload(f"{name}#{index}", types[return_type], kinds, is_member=bool(target))
            )
        functions.append(cel.FunctionDecl(name, overloads))
    return cel.NewEnv(
        descriptor_pool=messages(),
        variables={
            "device": cel.Type(DEVICE),
            "device.driver": types["string"],
            "device.allowMultipleAllocations": types["bool"],
            ATTRIBUTES: types["attributes"],
            CAPACITY: types["capacity"],
        },
        functions=functions,
        extensions=extensions(),
    )


def _shape(text: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Target type if any, parameter types and result of an overload as the table above writes them."""
    head, _, return_type = text.rpartition(" ")
    name, _, inside = head.partition("(")
    owner = name.partition(".")[0]
    target = () if owner == "sets" or "." not in name else (owner,)
    parameters = tuple(kind for kind in inside.rstrip(")").split(",") if kind)
    return target, parameters, return_type


@cache
def generic_overloads() -> Mapping[str, str]:
    """The overload that runs, by the id of the one that was checked."""
    overloads: dict[str, str] = {}
    for name, shapes in _OVERLOADS.items():
        for index, shape in enumerate(shapes):
            target, parameters, _ = _shape(shape)
            overloads[f"{name}#{index}"] = f"{name}_{len(target) + len(parameters)}"
    return overloads


def arities_of_functions() -> dict[str, set[tuple[int, bool]]]:
    """Kubernetes' own functions: in what numbers they take values, and whether the first is their target."""
    arities: dict[str, set[tuple[int, bool]]] = {}
    for name, shapes in _OVERLOADS.items():
        for shape in shapes:
            target, parameters, _ = _shape(shape)
            arities.setdefault(name, set()).add((len(target) + len(parameters), bool(target)))
    return arities


@cache
def runtime() -> LibraryObject:
    """The environment in which they run: values are what they are, functions take all and look themselves."""
    from cel_expr_python import cel

    types = cel.Type
    anything = types("google.protobuf.Any")
    functions = []
    arities = {"@equal": {(2, False)}, "@unequal": {(2, False)}, **arities_of_functions()}
    for name, kinds in arities.items():
        overloads = [
            cel.Overload(
                f"{name}_{count}", types.DYN, [anything] * count, is_member=member, impl=FUNCTIONS[name]
            )
            for count, member in sorted(kinds)
        ]
        functions.append(cel.FunctionDecl(name, overloads))
    unknown = types.Map(types.STRING, types.Map(types.STRING, types.DYN))
    maps = (ATTRIBUTES, CAPACITY, f"{PADDED}attributes", f"{PADDED}capacity")
    return cel.NewEnv(
        descriptor_pool=messages(),
        variables={
            "device.driver": types.STRING,
            "device.allowMultipleAllocations": types.BOOL,
            **dict.fromkeys(maps, unknown),
        },
        functions=functions,
        extensions=extensions(),
    )
