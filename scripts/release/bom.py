"""Bills of materials in CycloneDX: what the wheel installs along with it, and what the image holds.

Source: CycloneDX 1.6. The same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from scripts.image.lock import Row as LockedRow
from scripts.licences import Row
from scripts.locked import PROJECT, Pinned
from scripts.release.image_content import ImageContent

OWN_LICENCE: Final = "Apache-2.0"


def wheel_bom(
    wheel: Path, version: str, packages: Sequence[Pinned], rows: Iterable[Row], created: int
) -> Bom:
    """Of Tonnage's wheel: what it contains of others, and what is installed along with it.

    The first of `packages` is Tonnage itself.
    """
    rows = tuple(rows)
    licences = {row.name: row.licence for row in rows if row.kind == "python"}
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    root = _component(PROJECT, version, OWN_LICENCE, kind=ComponentType.APPLICATION, digest=digest)
    root.purl = PackageURL("pypi", None, PROJECT, version)
    bom = _bom(root, digest, created)
    components = {(PROJECT, packages[0].version): root}
    for package in packages[1:]:
        component = python_component(package.name, package.version, licences[package.name])
        component.scope = ComponentScope.OPTIONAL if package.optional else ComponentScope.REQUIRED
        components[package.name, package.version] = component
        bom.components.add(component)
    for package in packages:
        needed = [component for (name, _), component in components.items() if name in package.needs]
        bom.register_dependency(components[package.name, package.version], needed)
    for component in contained_components(rows):
        bom.components.add(component)
    return bom


def image_bom(
    content: ImageContent, version: str, locked: Mapping[str, LockedRow], rows: Iterable[Row], created: int
) -> Bom:
    """Of the image: its Debian packages, Python packages and what Tonnage contains of others."""
    rows = tuple(rows)
    licences = {(row.kind, row.name): row.licence for row in rows}
    digest = content.digest.removeprefix("sha256:")
    name = content.name.rpartition(":")[0]
    root = _component(name, version, OWN_LICENCE, kind=ComponentType.CONTAINER, digest=digest)
    bom = _bom(root, digest, created)
    distribution, _, _ = content.release.partition("-")
    for package in content.debian:
        locked_version, file_digest = locked.get(package.name, ("", ""))
        component = _component(
            package.name,
            package.version,
            licences["debian", package.name],
            digest=file_digest if locked_version == package.version else "",
        )
        qualifiers = {"arch": package.architecture, "distro": content.release}
        component.purl = PackageURL("deb", distribution, package.name, package.version, qualifiers)
        bom.components.add(component)
    for part in content.python:
        name, own = str(part.metadata["Name"]), str(part.metadata["Version"])
        purl = PackageURL("pypi", None, name, own)
        licence = OWN_LICENCE if name == PROJECT else licences["python", purl.name]
        bom.components.add(python_component(purl.name, own, licence))
    for component in contained_components(rows):
        bom.components.add(component)
    bom.register_dependency(root, bom.components)
    return bom


def python_component(name: str, version: str, licence: str) -> Component:
    """A package of the index."""
    component = _component(name, version, licence)
    component.purl = PackageURL("pypi", None, name, version)
    return component


def contained_components(rows: Iterable[Row]) -> list[Component]:
    """What files of Tonnage's wheel have of others: one part for each whose content it is."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.kind == "files" and " (from " in row.name:
            pattern, _, owner = row.name.removesuffix(")").partition(" (from ")
            found.setdefault((owner, row.licence), []).append(pattern)
    components = []
    for (owner, licence), patterns in sorted(found.items()):
        component = _component(owner, "", licence, kind=ComponentType.DATA)
        component.description = f"names, numbers and first objects in {', '.join(sorted(patterns))}"
        components.append(component)
    return components


def written(bom: Bom) -> str:
    """The bill as JSON, held against CycloneDX's own schema.

    Raises:
        ValueError: it does not fit, which is a mistake of this module.
    """
    from cyclonedx.validation.json import JsonStrictValidator  # a second, for grammars of addresses

    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"no bill of materials by CycloneDX's schema: {problem}")
    return text


def _bom(root: Component, digest: str, created: int) -> Bom:
    return Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, f"bill of materials of {digest}"),
        metadata=BomMetaData(component=root, timestamp=datetime.fromtimestamp(created, UTC)),
    )


def _component(
    name: str, version: str, licence: str, *, kind: ComponentType = ComponentType.LIBRARY, digest: str = ""
) -> Component:
    return Component(
        name=name,
        version=version or None,
        type=kind,
        bom_ref=f"{kind.value}:{name}@{version}",
        licenses=[LicenseFactory().make_from_string(licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else (),
    )
