"""What the operating system of a pod allows: options of Windows, and what Windows has not.

Source: pkg/apis/core/validation (validateWindows, validateLinux, validateWindowsHostProcessPod,
validateWindowsSecurityContextOptions), v1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, flag, mapping, text
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.pod_containers import every_container
from tonnage.twin.apiserver.objects.problems import complaints, forbidden, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found

_SYSTEMS: Final = ("linux", "windows")
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_NOT_OF_PODS: Final = (
    ("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC"),
    ("securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy"),
    ("securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser"),
    ("securityContext.runAsGroup", "securityContext.supplementalGroups"),
    ("securityContext.supplementalGroupsPolicy", "securityContext.seLinuxChangePolicy"),
)
_SET_WHEN_FULL: Final = ("hostPID", "hostIPC", "securityContext.sysctls")
"""Fields of pods that are unset when they are false or empty."""
_NOT_OF_CONTAINERS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem"),
    *("privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_LONGEST_SPEC_KIB: Final = 64
_LONGEST_DOMAIN: Final = 256
_LONGEST_USER: Final = 104
_NET_BIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BAD_IN_USER: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def operating_system(spec: JsonObject, path: str) -> Found:
    """The system that a pod says it needs."""
    if spec.get("os") is None:
        return
    match text(spec, "os", "name"):
        case "":
            yield required(f"{path}.os.name")
        case "linux":
            yield from _on_linux(spec, path)
        case "windows":
            yield from _on_windows(spec, path)
        case name:
            yield unsupported(f"{path}.os", name, _SYSTEMS)


def _on_linux(spec: JsonObject, path: str) -> Found:
    for one, where in ((spec, path), *every_container(spec, path)):
        if at(one, "securityContext", "windowsOptions") is not None:
            words = "windows options cannot be set for a linux pod"
            yield forbidden(f"{where}.securityContext.windowsOptions", words)


def _on_windows(spec: JsonObject, path: str) -> Found:
    for row in _NOT_OF_PODS:
        for key in row:
            value = at(spec, *key.split("."))
            if value if key in _SET_WHEN_FULL else value is not None:
                yield forbidden(f"{path}.{key}", _NOT_ON_WINDOWS)
    for container, where in every_container(spec, path):
        for key in _NOT_OF_CONTAINERS:
            if at(container, "securityContext", key) is not None:
                yield forbidden(f"{where}.securityContext.{key}", _NOT_ON_WINDOWS)


def host_processes(spec: JsonObject, path: str) -> Found:
    """Containers that are processes of a Windows host: all of a pod or none."""
    of_pod = at(spec, "securityContext", "windowsOptions", "hostProcess")
    found = list(every_container(spec, path))
    count = 0
    for container, where in found:
        own = at(container, "securityContext", "windowsOptions", "hostProcess")
        if of_pod is not None and own is not None and own != of_pod:
            shown = "true" if of_pod else "false"
            words = f"pod hostProcess value must be identical if both are specified, was {shown}"
            yield invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, words)
        count += bool(of_pod if own is None else own)
    if not count:
        return
    if count != len(found):
        words = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        yield invalid(path, "", words)
    if not flag(spec, "hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{path}.hostNetwork", False, words)


def windows_options(context: JsonObject, path: str) -> Found:
    """Options of Windows in a security context."""
    options = mapping(context, "windowsOptions")
    if options.get("gmsaCredentialSpecName") is not None:
        name = text(options, "gmsaCredentialSpecName")
        yield from complaints(f"{path}.gmsaCredentialSpecName", name, names.dns_subdomain(name))
    if options.get("gmsaCredentialSpec") is not None:
        described = text(options, "gmsaCredentialSpec")
        if not described:
            yield invalid(f"{path}.gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string")
        elif len(described.encode()) > _LONGEST_SPEC_KIB * 1024:
            words = f"gmsaCredentialSpec size must be under {_LONGEST_SPEC_KIB} KiB"
            yield invalid(f"{path}.gmsaCredentialSpec", described, words)
    if options.get("runAsUserName") is not None:
        name = text(options, "runAsUserName")
        wrong = (f"runAsUserName{rest}" for rest in _wrong_in_user(name))
        yield from complaints(f"{path}.runAsUserName", name, wrong)


def _wrong_in_user(name: str) -> list[str]:
    """What is wrong with `USER` or `DOMAIN\\USER`."""
    domain, backslash, user = name.rpartition("\\")
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    if "\\" in domain:
        return [" cannot contain more than one backslash"]
    wrong = []
    if len(domain.encode()) >= _LONGEST_DOMAIN:
        wrong.append(f"'s Domain length must be under {_LONGEST_DOMAIN} characters")
    if backslash and not (_NET_BIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        wrong.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        wrong.append("'s User cannot be empty")
    elif len(user.encode()) > _LONGEST_USER:
        wrong.append(f"'s User length must not be longer than {_LONGEST_USER} characters")
    if user and not user.strip(". "):
        wrong.append("'s User cannot contain only periods or spaces")
    if _BAD_IN_USER.search(user):
        wrong.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return wrong
