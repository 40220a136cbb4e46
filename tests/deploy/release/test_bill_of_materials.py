"""Bills of materials: what they name, by CycloneDX's own schema, of an image as its archive has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.image.archive import ImageConfig, pack_layer, write_archive
from scripts.licences import Licences, Row, shipped_by_the_wheel
from scripts.locked import PROJECT, Pinned, pinned_packages
from scripts.release.bom import image_bom, wheel_bom, written
from scripts.release.image_content import ImageContent, read_content

NAME = "registry.example/platform/agent"
FILES = {
    "usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status.d/libc6": "Package: libc6\nVersion: 2.36-9\nArchitecture: amd64\n",
    "var/lib/dpkg/status.d/libgcc-s1": "Package: libgcc-s1\nVersion: 12\nArchitecture: amd64\n",
    "var/lib/dpkg/status.d/zlib1g": "Package: zlib1g\nVersion: 1:1.2\nArchitecture: amd64\n",
    "usr/share/doc/libc6/copyright": "LGPL",
    "usr/share/doc/gcc-12-base/copyright": "GPL",
}
WHEELS = {
    "usr/local/lib/python3.11/dist-packages/My_Part-2.dist-info/METADATA": "Name: My_Part\nVersion: 2\n",
    "usr/local/lib/python3.11/dist-packages/My_Part.libs/libother.so": "",
    "usr/local/lib/python3.11/dist-packages/tonnage-1.dist-info/METADATA": "Name: tonnage\nVersion: 1\n",
}
ROWS = (
    Row("debian", "libc6", "2.36-9", "LGPL-2.1-or-later"),
    Row("debian", "libgcc-s1", "12", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    Row("debian", "zlib1g", "1:1.2", "Zlib"),
    Row("python", "my-part", "2", "Apache-2.0 OR MIT"),
    Row("files", "src/*.json (from Kubernetes)", "", "Apache-2.0"),
    Row("files", "src/*.proto (from Kubernetes)", "", "Apache-2.0"),
    Row("files", "labs/*", "", "Apache-2.0"),
)
LOCKED = {"libc6": ("2.36-9", "a" * 64), "zlib1g": ("1:1.3", "b" * 64)}


@pytest.fixture
def content(tmp_path: Path) -> ImageContent:
    """Of an image in two layers."""
    layers = []
    for number, files in enumerate((FILES, WHEELS)):
        root = tmp_path / f"root-{number}"
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        if not number:
            (root / "usr/share/doc/libgcc-s1").symlink_to("gcc-12-base")
        layers.append(pack_layer(root, tmp_path / f"layer-{number}", made_by="test"))
    write_archive(tmp_path / "image.tar", name=f"{NAME}:1", layers=layers, config=ImageConfig())
    return read_content(tmp_path / "image.tar")


def test_an_image_is_read_by_its_own_files(content: ImageContent) -> None:
    assert (content.name, content.release) == (f"{NAME}:1", "debian-12")
    assert [(one.name, one.version, one.copyright_text) for one in content.debian] == [
        ("libc6", "2.36-9", b"LGPL"),
        ("libgcc-s1", "12", b"GPL"),
        ("zlib1g", "1:1.2", b""),
    ]
    assert [(one.metadata["Name"], one.bundles) for one in content.python] == [
        ("My_Part", True),
        ("tonnage", False),
    ]


def test_the_image_has_its_debian_and_python_packages(content: ImageContent) -> None:
    bill = json.loads(written(image_bom(content, "1", LOCKED, ROWS, 86400)))
    parts: dict[str, Any] = {part["name"]: part for part in bill["components"]}
    assert set(parts) == {"libc6", "libgcc-s1", "zlib1g", "my-part", PROJECT, "Kubernetes"}
    assert parts["libc6"]["purl"] == "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12"
    assert parts["libc6"]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert "hashes" not in parts["zlib1g"], "another version is locked"
    assert parts["my-part"]["purl"] == "pkg:pypi/my-part@2"
    assert parts["my-part"]["licenses"] == [{"expression": "Apache-2.0 OR MIT"}]
    assert "src/*.json, src/*.proto" in parts["Kubernetes"]["description"]
    root = bill["metadata"]["component"]
    assert (root["type"], root["name"], root["version"]) == ("container", NAME, "1")
    assert root["hashes"] == [{"alg": "SHA-256", "content": content.digest.removeprefix("sha256:")}]


def test_the_same_image_has_the_same_bill(content: ImageContent) -> None:
    first, second = (written(image_bom(content, "1", LOCKED, ROWS, 86400)) for _ in range(2))
    assert first == second
    assert json.loads(first)["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"


def test_the_wheel_has_all_that_is_installed_along_with_it(tmp_path: Path) -> None:
    wheel = tmp_path / "tonnage.whl"
    wheel.write_bytes(b"wheel")
    rows = set(shipped_by_the_wheel(Licences.read()))
    bill = json.loads(written(wheel_bom(wheel, "1", pinned_packages(), rows, 0)))
    named = {(part["name"], part.get("version")) for part in bill["components"] if "purl" in part}
    assert named == {(package.name, package.version) for package in pinned_packages()[1:]}
    assert all(part["licenses"] for part in bill["components"])
    scopes = {part["name"]: part.get("scope") for part in bill["components"]}
    assert (scopes["grpcio"], scopes["kubernetes-validate"]) == ("required", "optional")
    needs = {row["ref"]: row.get("dependsOn", []) for row in bill["dependencies"]}
    own = needs[f"application:{PROJECT}@1"]
    assert any(ref.startswith("library:grpcio@") for ref in own)
    assert not any(ref.startswith("library:pycparser@") for ref in own), "that is cffi's"


def test_what_does_not_fit_the_schema_is_not_written(tmp_path: Path) -> None:
    wheel = tmp_path / "tonnage.whl"
    wheel.write_bytes(b"wheel")
    bom = wheel_bom(wheel, "1", [Pinned(PROJECT, "", ())], (), 0)
    assert bom.metadata.component is not None
    bom.metadata.component.mime_type = "no type"
    with pytest.raises(ValueError, match="no bill of materials by CycloneDX's schema"):
        written(bom)


LOCK = """
version = 1
[[package]]
name = "tonnage"
source = { editable = "." }
dependencies = [
    { name = "a" },
    { name = "win", marker = "sys_platform == 'win32'" },
    { name = "two", version = "1", source = { registry = "x" }, marker = "python_full_version < '3.12'" },
    { name = "two", version = "2", source = { registry = "x" }, marker = "python_full_version >= '3.12'" },
    { name = "two", version = "3", source = { registry = "x" }, marker = "python_full_version >= '3.14'" },
]
[package.optional-dependencies]
more = [{ name = "extra" }]
[[package]]
name = "a"
version = "1"
dependencies = [{ name = "deep", extra = ["x"] }]
[[package]]
name = "deep"
version = "1"
[package.optional-dependencies]
x = [{ name = "deeper" }]
y = [{ name = "dev" }]
[[package]]
name = "deeper"
version = "1"
[[package]]
name = "win"
version = "1"
[[package]]
name = "two"
version = "1"
[[package]]
name = "two"
version = "2"
[[package]]
name = "two"
version = "3"
[[package]]
name = "extra"
version = "1"
dependencies = [{ name = "a" }]
[[package]]
name = "dev"
version = "1"
"""


def test_what_a_lock_pins_for_those_who_install(tmp_path: Path) -> None:
    """Not what other systems, no Python of ours, or developers alone need."""
    (tmp_path / "uv.lock").write_text(LOCK)
    found = pinned_packages(tmp_path / "uv.lock")
    assert [(one.name, one.version, one.optional) for one in found] == [
        (PROJECT, "", False),
        ("a", "1", False),
        ("deep", "1", False),
        ("deeper", "1", False),
        ("extra", "1", True),
        ("two", "1", False),
        ("two", "2", False),
    ]
    assert found[0].needs == ("a", "two")
