"""The rules by which container runtimes accept a CDI spec, in their words.

Source: Container Device Interface 1.1.0; the texts are those of its library, which containerd, CRI-O and
podman have inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from tonnage.decide.node.cdi.shape import normal_spec, shape_problems
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue

VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_MOST_PROBLEMS: Final = 1000
_NODE_TYPES: Final = ("", "b", "c", "u", "p")
_HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")


def spec_problems(document: JsonValue) -> tuple[Problem, ...]:
    """Everything for which a runtime refuses the spec; `where` is a field's path.

    >>> [str(problem) for problem in spec_problems({"cdiVersion": "0.3.0", "kind": "a.b/cd", "devices": []})]
    ['devices: invalid spec, no devices']
    """
    shape = tuple(islice(shape_problems(document), _MOST_PROBLEMS))
    if not isinstance(document, dict) or any(not problem.where for problem in shape):
        return shape  # it is no spec at all
    normal = normal_spec(document)
    problems = chain(
        _head_problems(normal),
        _edits_problems(_object(normal, "containerEdits"), "containerEdits"),
        _devices_problems(normal),
    )
    misshapen = {problem.where for problem in shape}
    further = (problem for problem in problems if not misshapen.intersection(_upwards(problem.where)))
    return (*shape, *islice(further, _MOST_PROBLEMS - len(shape)))


def _upwards(where: str) -> Iterator[str]:
    """A field's path and those of what it is in: what has the wrong shape is told once."""
    while where:
        yield where
        where = where[: max(where.rfind("."), where.rfind("["), 0)]


def device_problems(device: JsonObject, where: str) -> Iterator[Problem]:
    """Why one device of a spec, of the right shape, is refused."""
    name = device.get("name", "")
    wrong = _device_name(str(name))
    if wrong:
        remedy = "letters, digits and _-.: inside, a letter or digit at both ends"
        yield Problem(wrong, f"{where}.name", remedy=remedy)
    edits = _object(device, "containerEdits")
    if not any(edits.values()):
        yield Problem("invalid device, empty device edits", f"{where}.containerEdits")
    yield from _edits_problems(edits, f"{where}.containerEdits")


def minimum_version(document: JsonObject) -> str:
    """The oldest version of the format that has all that a spec of the right shape uses.

    >>> minimum_version({"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]})
    '0.5.0'
    """
    devices = _objects(document, "devices")
    all_edits = [_object(owner, "containerEdits") for owner in (document, *devices)]
    needed = "0.3.0"
    for version, uses in (
        ("0.4.0", _typed_mount),
        ("0.5.0", _host_node),
        ("0.7.0", _group),
        ("1.1.0", _network),
    ):
        if any(map(uses, all_edits)):
            needed = version
    if needed < "0.5.0" and any(str(device.get("name", ""))[:1].isdigit() for device in devices):
        needed = "0.5.0"
    annotated = any(owner.get("annotations") for owner in (document, *devices))
    if needed < "0.6.0" and (annotated or "." in str(document.get("kind", "")).partition("/")[2]):
        needed = "0.6.0"
    return needed


def _typed_mount(edits: JsonObject) -> bool:
    return any(mount.get("type") for mount in _objects(edits, "mounts"))


def _host_node(edits: JsonObject) -> bool:
    return any(node.get("hostPath") for node in _objects(edits, "deviceNodes"))


def _group(edits: JsonObject) -> bool:
    return edits.get("intelRdt") is not None or bool(edits.get("additionalGids"))


def _network(edits: JsonObject) -> bool:
    rdt = _object(edits, "intelRdt")
    return bool(edits.get("netDevices") or rdt.get("schemata") or rdt.get("enableMonitoring"))


def _head_problems(document: JsonObject) -> Iterator[Problem]:
    version, kind = str(document.get("cdiVersion") or ""), str(document.get("kind") or "")
    needed = minimum_version(document)
    if version not in VERSIONS:
        yield Problem(f'invalid version "{version[:100]}"', "cdiVersion", remedy=f"write {needed}")
    elif VERSIONS.index(version) < VERSIONS.index(needed):
        why = "it uses what older versions do not have"
        yield Problem(f"the spec version must be at least v{needed}", "cdiVersion", why, f"write {needed}")
    vendor, slash, name = kind.partition("/")
    if not slash:
        yield Problem(f'invalid vendor/class "{kind[:100]}" in Spec', "kind", remedy="such as nvidia.com/gpu")
        return
    for part, text in (("vendor", vendor), ("class", name)):
        wrong = _part_of_kind(text)
        if wrong:
            yield Problem(f"invalid {part}. {wrong}", "kind")


def _devices_problems(document: JsonObject) -> Iterator[Problem]:
    devices = _objects(document, "devices")
    if not devices:
        yield Problem("invalid spec, no devices", "devices")
    names: set[str] = set()
    for place, device in _numbered(document, "devices"):
        name = str(device.get("name") or "")
        yield from device_problems(device, f"devices[{place}]")
        if name in names:
            yield Problem(f'invalid spec, multiple device "{name[:100]}"', f"devices[{place}].name")
        names.add(name)


def _edits_problems(edits: JsonObject, where: str) -> Iterator[Problem]:
    yield from _variables(edits, f"{where}.env", "invalid container edits: ")
    for place, node in _numbered(edits, "deviceNodes"):
        path, at = str(node.get("path") or ""), f"{where}.deviceNodes[{place}]"
        if not path:
            yield Problem("invalid (empty) device path", at)
        if str(node.get("type") or "") not in _NODE_TYPES:
            yield Problem(
                f'device "{path}": invalid type "{node["type"]}"', f"{at}.type", remedy="b, c, u or p"
            )
        if set(str(node.get("permissions") or "")) - set("rwm"):
            text = f'device "{path}": invalid permissions "{node["permissions"]}"'
            yield Problem(text, f"{at}.permissions", remedy="letters of rwm")
    for place, hook in _numbered(edits, "hooks"):
        name, at = str(hook.get("hookName") or ""), f"{where}.hooks[{place}]"
        if name not in _HOOKS:
            yield Problem(
                f'invalid hook name "{name}"', f"{at}.hookName", remedy=f"one of {', '.join(_HOOKS)}"
            )
        if not hook.get("path"):
            yield Problem(f'invalid hook "{name}" with empty path', f"{at}.path")
        yield from _variables(hook, f"{at}.env", f'invalid hook "{name}": ')
    for place, mount in _numbered(edits, "mounts"):
        for field, words in (("hostPath", "host path"), ("containerPath", "container path")):
            if not mount.get(field):
                yield Problem(f"invalid mount, empty {words}", f"{where}.mounts[{place}].{field}")
    yield from _device_groups(edits, where)


def _device_groups(edits: JsonObject, where: str) -> Iterator[Problem]:
    closid = str(_object(edits, "intelRdt").get("closID") or "")
    if closid != "/" and (len(closid) >= 4096 or closid in (".", "..") or set(closid) & set("/\n")):
        yield Problem("invalid ClosID", f"{where}.intelRdt.closID")
    hosts: set[str] = set()
    names: set[str] = set()
    for place, device in _numbered(edits, "netDevices"):
        host, name = str(device.get("hostInterfaceName") or ""), str(device.get("name") or "")
        for word, text, earlier in (("HostInterfaceName", host, hosts), ("Name", name, names)):
            if not text or text in earlier:
                wrong = f'duplicate {word} "{text}"' if text else f"empty {word}"
                yield Problem(f"invalid linux net device, {wrong}", f"{where}.netDevices[{place}]")
            earlier.add(text)


def _variables(owner: JsonObject, where: str, before: str) -> Iterator[Problem]:
    items = owner.get("env")
    for place, variable in enumerate(items if isinstance(items, list) else ()):
        if str(variable).find("=") <= 0:
            text = f'{before}invalid environment variable "{str(variable)[:100]}"'
            yield Problem(text, f"{where}[{place}]", remedy="write NAME=value")


def _part_of_kind(text: str) -> str:
    """What is wrong with a vendor or a class; one of a single character ends the library's program."""
    if not text:
        return "empty name"
    if not (text[0].isascii() and text[0].isalpha()):
        return f'"{text[:100]}", should start with letter'
    if len(text) == 1:
        return f'"{text}", should have two characters or more'
    return _inner(text, "_-.", "name") or (
        "" if _alphanumeric(text[-1]) else f'"{text[:100]}", should end with a letter or digit'
    )


def _device_name(text: str) -> str:
    if not text:
        return "invalid (empty) device name"
    if not _alphanumeric(text[0]):
        return f'invalid class "{text[:100]}", should start with a letter or digit'
    return _inner(text, "_-.:", "device name") or (
        "" if _alphanumeric(text[-1]) else f'invalid name "{text[:100]}", should end with a letter or digit'
    )


def _inner(text: str, allowed: str, noun: str) -> str:
    for character in text[1:-1]:
        if not _alphanumeric(character) and character not in allowed:
            return f"invalid character '{character}' in {noun} \"{text[:100]}\""
    return ""


def _alphanumeric(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _object(owner: JsonObject, key: str) -> JsonObject:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _objects(owner: JsonObject, key: str) -> list[JsonObject]:
    return [element for _, element in _numbered(owner, key)]


def _numbered(owner: JsonObject, key: str) -> list[tuple[int, JsonObject]]:
    """The objects of a list with their places in it."""
    value = owner.get(key)
    items = value if isinstance(value, list) else ()
    return [(place, element) for place, element in enumerate(items) if isinstance(element, dict)]
