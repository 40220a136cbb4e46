"""Are the driver's libraries there, of the module's version, and does the loader find them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, finding
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import DriverAnswer, LibraryFacts
from tonnage.model.reasons.messages.node_symptoms import LibraryVersionMismatch
from tonnage.model.reasons.node.libraries import DriverRefuses, LibraryMissing, LibraryNotCached

_LAYER: Final = NodeLayer.LIBRARIES
_NVML: Final = "libnvidia-ml.so.1"
_CUDA: Final = "libcuda.so.1"
_PURPOSE: Final = {_NVML: "nvidia-smi and every device plugin need it", _CUDA: "CUDA programs need it"}


def judge_libraries(facts: LibraryFacts, version: str, answer: DriverAnswer, *, sound: bool) -> Judgement:
    """`version` is the loaded module's, empty if it is not known. `sound`: nothing below fails."""
    files = {file.name: file for file in facts.files}
    findings = [*_missing(facts), *_mismatched(facts, version), *_uncached(facts)]
    if not findings and sound and answer.error and not answer.hangs:
        findings.append(_refused(answer))
    versions = sorted({file.version for file in facts.files if file.version})
    where = "" if facts.root == "/" else f" in {facts.root}"
    summary = f"{', '.join(versions) or 'of unknown version'}{where}" if files else "not found"
    return Judgement(_LAYER, tuple(findings), summary)


def _missing(facts: LibraryFacts) -> Iterator[NodeFinding]:
    there = {file.name for file in facts.files}
    for name, purpose in _PURPOSE.items():
        if name not in there:
            yield finding(
                LibraryMissing(
                    message=f"{name} is missing",
                    remedy="install the driver's libraries of the module's version"
                    " (libnvidia-compute-* on Debian and Ubuntu, nvidia-driver-cuda-libs on Fedora and RHEL)",
                    library=name,
                ),
                where=f"{facts.root.rstrip('/')}/usr/lib*",
                why=f"{purpose}; the module alone does not suffice",
            )


def _mismatched(facts: LibraryFacts, version: str) -> Iterator[NodeFinding]:
    for file in facts.files:
        if version and file.version and file.version != version:
            yield finding(
                LibraryVersionMismatch(
                    subject="",
                    message=f"{file.name} is of version {file.version}, the loaded module of {version}",
                    remedy="kubectl drain $(hostname) --ignore-daemonsets, then reboot"
                    " (or: rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia)",
                    library=file.name,
                    version=file.version,
                    loaded=version,
                ),
                where=file.path,
                why="every call fails with 'Driver/library version mismatch': the driver was upgraded,"
                " but the old module is still loaded",
            )


def _uncached(facts: LibraryFacts) -> Iterator[NodeFinding]:
    """Only the host's: a container's driver is not found by the loader."""
    lacking = [file for file in facts.files if not (facts.cache or {}).get(file.name)]
    if facts.root != "/" or not lacking:
        return
    missing = facts.cache_trouble or ("" if facts.cache is not None else "there is no cache")
    yield finding(
        LibraryNotCached(
            message=f"the loader's cache does not have {' and '.join(file.name for file in lacking)}",
            remedy="ldconfig",
            libraries=tuple(file.name for file in lacking),
        ),
        where="/etc/ld.so.cache",
        why=f"it is at {lacking[0].path}, where programs may not find it{f' ({missing})' if missing else ''}",
    )


def _refused(answer: DriverAnswer) -> NodeFinding:
    return finding(
        DriverRefuses(
            message="the driver refuses to answer",
            remedy="nvidia-smi; dmesg | grep -iE 'nvrm|xid' | tail",
            error=answer.error,
        ),
        where="NVML",
        why=answer.error,
    )
