"""What may be shipped: every part has a licence that the list allows, or the gate says which has none."""

from __future__ import annotations

import hashlib
from email.message import Message
from pathlib import Path

import pytest

from scripts.image.trees import lines_of
from scripts.licences import TABLE, Licences, main, shipped_by_the_image, shipped_by_the_wheel
from scripts.locked import PROJECT, ROOT, pinned_packages

READ = b"read by somebody"
LICENCES = Licences(
    {
        "allowed": ["MIT", "Apache-2.0", "GPL-3.0-or-later WITH GCC-exception-3.1"],
        "python": {"old": {"stated": "MIT License", "licence": "MIT"}},
        "bundled": {"carrier": "GPL-3.0-or-later WITH GCC-exception-3.1"},
        "debian": {
            "lib*1": {"licence": "MIT", "copyright": [hashlib.sha256(READ).hexdigest()]},
            "libbad2": {"licence": "SSPL-1.0", "copyright": []},
        },
        "files": {"src/*.json": {"licence": "Apache-2.0", "from": "Kubernetes"}},
    }
)


def metadata(name: str, **fields: str) -> Message:
    found = Message()
    found["Name"], found["Version"] = name, "1.0"
    for field, value in fields.items():
        found[field.replace("_", "-")] = value
    return found


@pytest.mark.parametrize(
    ("licence", "refusal"),
    [
        pytest.param("MIT", "", id="one of the list"),
        pytest.param("MIT AND Apache-2.0", "", id="both are of the list"),
        pytest.param("SSPL-1.0 OR MIT", "", id="the one to choose is of the list"),
        pytest.param("MIT AND (SSPL-1.0 OR Apache-2.0)", "", id="in brackets"),
        pytest.param("GPL-3.0-or-later WITH GCC-exception-3.1", "", id="with its exception"),
        pytest.param("GPL-3.0-or-later", "GPL-3.0-or-later is not allowed", id="without the exception"),
        pytest.param("MIT AND SSPL-1.0", "MIT AND SSPL-1.0 is not allowed", id="one of both is not"),
        pytest.param("", "no licence", id="none at all"),
        pytest.param("MIT AND", "no SPDX expression", id="no expression"),
        pytest.param("Proprietary", "Proprietary is not allowed", id="a word of its own"),
    ],
)
def test_what_the_list_allows(licence: str, refusal: str) -> None:
    assert LICENCES.refusal(licence).startswith(refusal)
    assert bool(LICENCES.refusal(licence)) == bool(refusal)


@pytest.mark.parametrize(
    ("found", "bundles", "refusal"),
    [
        pytest.param(metadata("new", License_Expression="MIT"), False, "", id="an expression"),
        pytest.param(metadata("Old", License="MIT License"), False, "", id="none, but the table knows it"),
        pytest.param(
            metadata("old", Classifier="License :: OSI Approved :: MIT License"),
            False,
            "",
            id="by classifier",
        ),
        pytest.param(
            metadata("old", License="SSPL"), False, "its metadata says 'SSPL'", id="another than was read"
        ),
        pytest.param(metadata("other"), False, "name it in [python]", id="neither, and nobody looked"),
        pytest.param(
            metadata("old", License_Expression="MIT"), False, "take it out of [python]", id="a row in vain"
        ),
        pytest.param(
            metadata("new", License_Expression="SSPL-1.0"), False, "is not allowed", id="not allowed"
        ),
        pytest.param(metadata("carrier", License_Expression="MIT"), True, "", id="bundled, and known"),
        pytest.param(
            metadata("new", License_Expression="MIT"),
            True,
            "name their licences in [bundled]",
            id="and not known",
        ),
    ],
)
def test_a_package_of_the_index(found: Message, bundles: bool, refusal: str) -> None:
    said = LICENCES.python(found, bundles=bundles).refusal
    assert refusal in said
    assert bool(said) == bool(refusal)


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        pytest.param("libz1", READ, "", id="its copyright file was read"),
        pytest.param("libz1", b"changed", "nobody has read its copyright file", id="it has another one now"),
        pytest.param("libz1", b"", "nobody has read its copyright file", id="it has none"),
        pytest.param("libz1", None, "", id="it is not looked at"),
        pytest.param("other", READ, "no pattern of [debian] is other", id="nobody knows it"),
        pytest.param("libbad2", None, "SSPL-1.0 is not allowed", id="its licence is not allowed"),
    ],
)
def test_a_package_of_debian(name: str, text: bytes | None, refusal: str) -> None:
    said = LICENCES.debian(name, "1", text).refusal
    assert refusal in said
    assert bool(said) == bool(refusal)


def test_a_file_that_nobody_named_is_refused() -> None:
    assert LICENCES.file("src/a.json").name == "src/*.json (from Kubernetes)"
    assert LICENCES.file("src/a.bin").refusal == "no pattern of [files] is it"


def test_all_that_is_shipped_is_listed_and_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    licences = Licences.read()
    rows = {*shipped_by_the_wheel(licences), *shipped_by_the_image(licences)}
    assert {f"{row.name}: {row.refusal}" for row in rows if row.refusal} == set()
    assert {package.name for package in pinned_packages()} <= {row.name for row in rows}
    assert {"libc6", "libssl3", PROJECT} <= {row.name for row in rows}


def test_the_list_says_nothing_in_vain() -> None:
    licences = Licences.read()
    rows = [*shipped_by_the_wheel(licences), *shipped_by_the_image(licences)]
    used = " ".join(row.licence for row in rows).replace("(", " ").replace(")", " ")
    assert [one for one in licences.allowed if one not in used] == []
    assert set(licences.python_table) <= {row.name for row in rows}
    assert {
        pattern for pattern in licences.file_table if pattern not in " ".join(r.name for r in rows)
    } == set()


def test_every_debian_package_of_the_recipe_has_its_licence() -> None:
    licences = Licences.read()
    for pattern in lines_of(ROOT / "deploy" / "image" / "packages.txt"):
        assert licences.debian_entry(pattern.replace("*", "x")) is not None, pattern


def test_the_command_fails_for_what_is_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "licences.toml"
    table.write_text(TABLE.read_text(encoding="utf-8").replace('    "Zlib",\n', ""))
    shorter = Licences.read(table)
    monkeypatch.setattr("scripts.licences.Licences.read", lambda: shorter)
    monkeypatch.setattr("sys.argv", ["licences", "--check"])
    assert main() == 1
    assert "zlib1g: Zlib is not allowed" in capsys.readouterr().err
