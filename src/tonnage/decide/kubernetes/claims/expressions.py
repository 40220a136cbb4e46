"""CEL selectors as the scheduler compiles and evaluates them.

Not there, because the library cannot be told: macros with two variables, `format`, regular expressions but
`matches`, addresses, URLs, and `device` as a value of its own. Such an expression is unsupported, not false.
The cost of an evaluation is not counted as Kubernetes does; what could go on for long is unsupported, too.

Source: k8s.io/dynamic-resource-allocation/cel (1.35.8, 1.36.3, 1.37.1), k8s.io/apiserver/pkg/cel/environment.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tonnage.decide.kubernetes.cel.optionals import LOST, loses_optionals
from tonnage.decide.kubernetes.cel.tree import unpacked
from tonnage.decide.kubernetes.cel.types.untyped import LibraryObject
from tonnage.decide.kubernetes.claims.cel_environment import checker, generic_overloads, runtime
from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError, CompileError
from tonnage.decide.kubernetes.claims.cel_tree import (
    ATTRIBUTES,
    CAPACITY,
    LARGEST_MAP,
    PADDED,
    Tree,
    read_tree,
)
from tonnage.decide.kubernetes.claims.cel_values import quantity_of, semver_of
from tonnage.decide.kubernetes.claims.cel_wording import (
    WHOLE_DEVICE,
    compile_error,
    no_bool,
    runtime_error,
    written_type,
)
from tonnage.model.kubernetes.resource_claims import SemanticVersion, SliceDevice

LONGEST: Final = 10 * 1024
"""Bytes of an expression that the API server takes."""
_MOST_STEPS: Final = 1_000_000
_MOST_REPLACES: Final = 4
_LONGEST_ERROR: Final = 200
_FIELD_GIVEN: Final = re.compile(r"\bhas\(\s*device\s*\.\s*(?:driver|attributes|capacity)\s*\)")


class CelSelector:
    """One compiled expression. With an `error`, which is the scheduler's, nothing can be evaluated."""

    def __init__(self, expression: str, minor: int) -> None:
        self.expression = expression
        self.error = ""
        self._tree: Tree | None = None
        self._programs: tuple[LibraryObject, LibraryObject] = (None, None)
        self._keys: dict[str, list[str]] = {}
        self._compile(expression, minor)

    def _compile(self, expression: str, minor: int) -> None:
        if len(expression) > LONGEST:
            raise CelUnsupportedError(f"more than {LONGEST} characters, which no API server takes")
        text = _FIELD_GIVEN.sub(lambda match: "true".ljust(len(match[0])), expression)
        try:
            compiled = checker(minor).compile(text)
        except ModuleNotFoundError:
            raise CelUnsupportedError("CEL, which the agent's image leaves out") from None
        except RuntimeError as error:
            self.error = compile_error(str(error).replace(text, expression), expression)
            return
        return_type = compiled.return_type()
        if return_type.name() not in ("BOOL", "ERROR", *(("DYN",) if minor > 36 else ())):
            self.error = f"must evaluate to bool or the unknown type, not {written_type(return_type.name())}"
            return
        serialized = compiled.serialize()
        if loses_optionals(unpacked(serialized), generic_overloads()):
            raise CelUnsupportedError(LOST)
        self._tree = read_tree(serialized, generic_overloads())
        if self._tree.whole_device:
            raise CelUnsupportedError(WHOLE_DEVICE)
        if self._tree.steps > _MOST_STEPS or self._tree.replaces > _MOST_REPLACES:
            raise CelUnsupportedError("more steps than a selector may cost")
        run = runtime()
        self._programs = (run.deserialize(self._tree.program), run.deserialize(self._tree.careful))

    def seen_of(self, driver: str, device: SliceDevice) -> tuple[object, ...]:
        """All of a device that the expression can tell apart, as a key; two that share it have one answer."""
        tree = self._tree
        if tree is None:
            return ()
        attributes, capacity = device.attributes, device.capacity
        if tree.looks_at_all:
            rows: list[tuple[str, object, object]] = [(k, v, type(v)) for k, v in attributes.items()]
            return driver, device.shareable, *rows, *((k, v.value) for k, v in capacity.items())
        keys = self._keys.get(driver)
        if keys is None:
            domains = [f"{domain}/" for domain in sorted({d for ds in tree.domains.values() for d in ds})]
            keys = [prefix + name for name in sorted(tree.names) for prefix in ("", f"{driver}/", *domains)]
            self._keys[driver] = keys
        unread = None in attributes.values()
        visible = [(value, type(value)) for value in map(attributes.get, keys)]
        held = [value and value.value for value in map(capacity.get, keys)]
        return driver, device.shareable, unread and tuple(attributes.items()), *visible, *held

    def matches(self, driver: str, device: SliceDevice) -> bool:
        """Whether the device is selected.

        Raises:
            CompileError: it is no selector.
            CelError: it fails on this device; the text is the scheduler's.
            UnsupportedError: its result cannot be known.
        """
        tree = self._tree
        if tree is None:
            raise CompileError(self.error)
        if tree.looks_at_all and max(len(device.attributes), len(device.capacity)) > LARGEST_MAP:
            raise CelUnsupportedError(f"all of the more than {LARGEST_MAP} attributes of a device")
        unread = sorted(name for name, value in device.attributes.items() if value is None)
        if unread:
            raise CelError(f"attribute {unread[0]}: unsupported attribute value")
        careful = any(
            isinstance(value, SemanticVersion) and name.rpartition("/")[2] in tree.names
            for name, value in device.attributes.items()
        )
        try:
            value = self._programs[careful].eval(data=_variables(driver, device, tree))
            kind, plain = value.type().name(), value.value()
        except RuntimeError as error:  # of the library, not of the expression: its budget, or a limit
            raise CelUnsupportedError(_given_up(str(error))) from None
        if kind == "ERROR":
            raise CelError(runtime_error(str(plain), tree))
        if isinstance(plain, bool):
            return plain
        raise CelError(no_bool(plain))


class Selection:
    """Answers of one selector, kept by what it looks at: most devices of a fleet look alike to it."""

    def __init__(self, selector: CelSelector) -> None:
        self._selector = selector
        self._answers: dict[tuple[object, ...], bool | CelError | CelUnsupportedError] = {}

    def takes(self, driver: str, device: SliceDevice) -> bool:
        """As `CelSelector.matches`."""
        key = self._selector.seen_of(driver, device)
        answer = self._answers.get(key)
        if answer is None:
            try:
                answer = self._selector.matches(driver, device)
            except (CelError, CelUnsupportedError) as error:
                answer = error
            self._answers[key] = answer
        if not isinstance(answer, bool):
            raise type(answer)(str(answer))
        return answer


def selection(expression: str, minor: int) -> Selection:
    """The compiled expression as 1.`minor` reads it, with no answers yet.

    Raises:
        UnsupportedError: it cannot be evaluated here.
    """
    return Selection(_selector(expression, minor))


@lru_cache(maxsize=1024)
def _selector(expression: str, minor: int) -> CelSelector:
    return CelSelector(expression, minor)


def _given_up(error: str) -> str:
    if "budget exceeded" in error:
        return "more steps than are tried: the selector takes too long to decide here"
    return f"what cannot be evaluated here ({error[:_LONGEST_ERROR]})"


def _variables(driver: str, device: SliceDevice, tree: Tree) -> dict[str, object]:
    attributes: dict[str, dict[str, object]] = {}
    # A name with the driver's own domain and the same without one are one attribute: the longer counts.
    for name, value in sorted(device.attributes.items(), key=lambda entry: "/" in entry[0]):
        domain, _, identifier = name.rpartition("/")
        plain = semver_of(value.text) if isinstance(value, SemanticVersion) else value
        attributes.setdefault(domain or driver, {})[identifier] = plain
    capacity: dict[str, dict[str, object]] = {}
    for name, amount in sorted(device.capacity.items(), key=lambda entry: "/" in entry[0]):
        domain, _, identifier = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[identifier] = quantity_of(amount.value)
    return {
        "device.driver": driver,
        "device.allowMultipleAllocations": device.shareable,
        ATTRIBUTES: attributes,
        CAPACITY: capacity,
        f"{PADDED}attributes": _padded(attributes, driver, tree.domains[ATTRIBUTES]),
        f"{PADDED}capacity": _padded(capacity, driver, tree.domains[CAPACITY]),
    }


def _padded(
    by_domain: dict[str, dict[str, object]], driver: str, domains: frozenset[str]
) -> dict[str, dict[str, object]]:
    return {**{key: {} for key in (driver, *domains)}, **by_domain}
