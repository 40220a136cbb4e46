"""What the documents say exists, exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.draw_rooms import ROOMS, SOURCE, room_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "labs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE_PATH = re.compile(r"`(?P<path>(?:src|tests|labs|docs|scripts|benchmarks)/[\w./-]+)`")
MAKE = re.compile(r"`make (?P<target>[a-z-]+)")


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    return {_slug(line.lstrip("#")) for line in page.read_text().splitlines() if line.startswith("#")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for match in LINK.finditer(page.read_text()):
        target, _, anchor = match["target"].partition("#")
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            broken.append(match["target"])
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    # A page says what will exist with the word "once"; everything else is there now.
    named = [
        match["path"]
        for line in page.read_text().splitlines()
        if "once" not in line
        for match in CODE_PATH.finditer(line)
    ]
    assert [path for path in named if not (ROOT / path).exists()] == []


NEWCOMERS = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Where a newcomer adds what\n")[2]
ROWS = [line for line in NEWCOMERS.partition("\n## ")[0].splitlines() if line.startswith("| a")]
SUBJECTS = (
    *("vendor", "GPU model", "lint rule", "scheduler filter", "command", "lab"),
    *("column that kubectl prints on the twin", "check of an API field", "transition of a MIG change"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_path_and_command_in_the_newcomers_table_is_there(row: str) -> None:
    """`labs/<name>/lab.yaml` stands for some lab that is there."""
    named = re.findall("`([^`]+)`", row)
    paths = [word for word in named if word.endswith(".py") or ("/" in word and " " not in word)]
    paths += [re.sub("[.]", "/", word.split()[2]) + ".py" for word in named if word.startswith("python -m ")]
    assert paths or "make " in row
    assert [path for path in paths if not any(ROOT.glob(re.sub("<[^>]+>", "*", path)))] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_name_in_the_newcomers_table_is_in_a_file_of_its_row(row: str) -> None:
    words = re.findall("`([^`]+)`", row)
    patterns = [re.sub("<[^>]+>", "*", word.rstrip("/")) for word in words if "/" in word and " " not in word]
    places = [place for pattern in patterns for place in ROOT.glob(pattern)]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
    text = "".join(file.read_text() for file in files)
    names = [
        word for word in words if re.fullmatch(r"\w+", word) and word not in {place.name for place in places}
    ]
    missing = [
        name for name in names if name not in text and not any(place.match(f"*/{name}") for place in files)
    ]
    assert missing == []


def test_the_newcomers_table_sends_each_to_his_file() -> None:
    sent = {row.split("|")[1].strip().partition(" ")[2]: row.split("|")[2] for row in ROWS}
    assert [subject for subject in SUBJECTS if "/" not in sent.get(subject, "")] == []


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {match["target"] for page in PAGES for match in MAKE.finditer(page.read_text())}
    assert named <= targets


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    assert [page.name for page in folder.glob("[0-9]*.md") if f"({page.name})" not in index] == []


def test_every_package_is_in_a_room_that_the_page_on_the_architecture_tells_of() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    told = {
        room
        for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        for room in re.findall("`(.+?)`", row)
    }
    assert told == set(ROOMS)
    packages = [path.parent.relative_to(SOURCE.parent) for path in SOURCE.rglob("*/__init__.py")]
    names = {".".join(path.parts) for path in packages} - {"tonnage.decide", "tonnage"}
    assert [name for name in names if room_of(name) is None] == []
