"""Security contexts of pods and of their containers: users, profiles, kernel parameters.

Source: pkg/apis/core/validation (validatePodSpecSecurityContext, ValidateSecurityContext), v1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.api.go_values import in_go
from tonnage.decide.kubernetes.api.problems import (
    duplicate,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import (
    FieldErrors,
    more_groups,
    one_of_if_set,
    user_or_group,
)
from tonnage.decide.kubernetes.api.validation.file_paths import descending_path
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mapping, mappings, text, texts

SECCOMP_OF_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_OF: Final = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR_OF: Final = "container.apparmor.security.beta.kubernetes.io/"
_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_LONGEST_SYSCTL: Final = 253
_LONGEST_PROFILE: Final = 4095
_OF_IPC: Final = re.compile(r"kernel\.(shm(all|max|mni|_rmid_forced)?|msg(max|mnb|mni)?|sem)$|fs\.mqueue\.")


def pod_security(spec: JsonObject, path: str) -> FieldErrors:
    """The security context of a pod, and what of it stands beside it."""
    context = mapping(spec, "securityContext")
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from user_or_group(context, key, path)
    yield from more_groups(context, path)
    if flag(spec, "shareProcessNamespace") and flag(spec, "hostPID"):
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, words)
    yield from _sysctls(spec, f"{path}.sysctls")
    yield from one_of_if_set(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    yield from _seccomp(context, f"{path}.seccompProfile")
    yield from _app_armor(context, f"{path}.appArmorProfile")
    yield from one_of_if_set(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path)
    yield from one_of_if_set(context, "seLinuxChangePolicy", ("Recursive",), path)


def _sysctls(spec: JsonObject, path: str) -> FieldErrors:
    seen_names: set[str] = set()
    for index, sysctl in enumerate(mappings(spec, "securityContext", "sysctls")):
        where, name = f"{path}[{index}].name", text(sysctl, "name")
        if not name:
            yield required(where)
        elif len(name) > _LONGEST_SYSCTL or not re.match(_SYSCTL, name):
            yield invalid(
                where, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
            )
        elif name in seen_names:
            yield duplicate(where, name)
        for key, shares in (("hostNetwork", _is_of_network), ("hostIPC", _is_of_ipc)):
            if flag(spec, key) and shares(_dotted(name)):
                yield invalid(where, name, f"may not be specified when '{key}' is true")
                break
        seen_names.add(name)


def _dotted(name: str) -> str:
    """A kernel parameter with dots between its parts; in one with slashes, dots are slashes and back."""
    first = re.search(r"[./]", name)
    if first is None or first[0] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def _is_of_network(name: str) -> bool:
    return name.startswith("net.")


def _is_of_ipc(name: str) -> bool:
    return _OF_IPC.match(name) is not None


def container_security(context: JsonObject, path: str, *, host_users: bool) -> FieldErrors:
    """The security context of a container."""
    yield from user_or_group(context, "runAsUser", path)
    yield from user_or_group(context, "runAsGroup", path)
    if context.get("procMount") is not None:
        mount = text(context, "procMount")
        if mount not in ("Default", "Unmasked"):
            yield unsupported(f"{path}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            yield invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(context, f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if flag(context, "privileged"):
            words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, in_go("SecurityContext", context), words)
        if "CAP_SYS_ADMIN" in texts(context, "capabilities", "add"):
            words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, in_go("SecurityContext", context), words)
    yield from _app_armor(context, f"{path}.appArmorProfile")


def _seccomp(context: JsonObject, path: str) -> FieldErrors:
    if not isinstance(context.get("seccompProfile"), dict):
        return
    profile = mapping(context, "seccompProfile")
    kind, name = text(profile, "type"), profile.get("localhostProfile")
    if not kind:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    where = f"{path}.localhostProfile"
    if kind != "Localhost":
        if name is not None:
            shown = in_go("SeccompProfile", profile)
            yield invalid(where, shown, "can only be set when seccomp type is Localhost")
    elif name is None:
        yield required(where, "must be set when seccomp type is Localhost")
    else:
        yield from descending_path(str(name), where)


def _app_armor(context: JsonObject, path: str) -> FieldErrors:
    if isinstance(context.get("appArmorProfile"), dict):
        yield from app_armor_profile(mapping(context, "appArmorProfile"), path)


def app_armor_profile(profile: JsonObject, path: str) -> FieldErrors:
    """What AppArmor confines a container to."""
    kind, name = text(profile, "type"), profile.get("localhostProfile")
    where = f"{path}.localhostProfile"
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    elif kind != "Localhost":
        if name is not None:
            yield invalid(where, name, "can only be set when AppArmor type is Localhost")
    elif not isinstance(name, str) or not name:
        yield required(where, "must be set when AppArmor type is Localhost")
    else:
        if name.strip() != name:
            yield invalid(where, name, "must not be padded with whitespace")
        if len(name.encode()) > _LONGEST_PROFILE:
            yield too_long(where, _LONGEST_PROFILE)
