"""What the image takes and leaves out, which names and versions it accepts, and what apt is asked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.image.base import chosen_base
from scripts.image.build import REPOSITORY, Wish, build_image, full_name
from scripts.image.debian import Apt, require_debian, unpack
from scripts.image.inside import USER_ID
from scripts.image.probe import named_in
from scripts.image.trees import Patterns, lines_of
from scripts.image.wheels import staged_source, version_of
from tonnage.model.errors import ConfigError

RECIPE = REPOSITORY / "deploy" / "image"
DIGEST = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
"""SHA-256 of `hello`."""


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        pytest.param("usr/bin/python3.11", True, id="the interpreter"),
        pytest.param("usr/lib/x86_64-linux-gnu/libc.so.6", True, id="the C library"),
        pytest.param("usr/lib/python3.11/asyncio/events.py", True, id="the standard library"),
        pytest.param("usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", True, id="TLS"),
        pytest.param("usr/share/doc/libc6/copyright", True, id="a copyright file"),
        pytest.param("usr/share/common-licenses/GPL-3", True, id="a licence"),
        pytest.param("usr/local/lib/python3.11/dist-packages/c.dist-info/METADATA", True, id="a version"),
        pytest.param("usr/local/lib/python3.11/dist-packages/c.dist-info/licenses/L", True, id="its licence"),
        pytest.param("usr/bin/tail", True, id="what follows logs"),
        *(pytest.param(f"usr/bin/{name}", False, id=name) for name in ("tac", "tee", "test", "pr", "cat")),
        pytest.param("usr/bin/bash", False, id="a shell"),
        pytest.param("usr/sbin/ldconfig", False, id="what an administrator runs"),
        pytest.param("usr/lib/python3.11/test/support/__init__.py", False, id="Python's tests"),
        pytest.param("usr/share/doc/libc6/changelog.Debian.gz", False, id="a changelog"),
        pytest.param("usr/share/doc/libc6/NEWS.gz", False, id="news"),
        pytest.param("usr/share/man/man1/python3.11.1.gz", False, id="a manual"),
        pytest.param("usr/lib/x86_64-linux-gnu/gconv/BIG5.so", False, id="a converter of characters"),
        pytest.param("usr/local/lib/python3.11/dist-packages/click/core.pyi", False, id="types of a wheel"),
        pytest.param("usr/local/lib/python3.11/dist-packages/bin/idna", False, id="a program of a wheel"),
    ],
)  # fmt: skip
def test_what_stays_and_what_is_left_out(path: str, stays: bool) -> None:
    assert Patterns.of(lines_of(RECIPE / "left-out.txt")).match(path) is not stays


@pytest.mark.parametrize("name", ["apt", "dpkg", "bash", "dash", "perl-base", "tar", "openssl", "libdb5.3"])
def test_no_package_brings_a_shell_or_a_package_manager(name: str) -> None:
    assert not Patterns.of(lines_of(RECIPE / "packages.txt")).match(name)


def test_the_user_is_known_in_the_image() -> None:
    rows = [line.split(":") for line in (RECIPE / "root/etc/passwd").read_text().splitlines()]
    assert [row[:4] for row in rows if row[0] == "nonroot"] == [["nonroot", "x", f"{USER_ID}", f"{USER_ID}"]]
    assert f"nonroot:x:{USER_ID}:" in (RECIPE / "root/etc/group").read_text()


def test_the_image_has_the_programs_of_the_wheel() -> None:
    programs = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    folder = RECIPE / "root/usr/local/bin"
    assert {path.name for path in folder.iterdir()} == set(programs)
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o755
        assert "from tonnage.cli.main import main" in path.read_text()


def test_the_program_of_the_image_runs() -> None:
    program = RECIPE / "root/usr/local/bin/kubectl-gpu"
    answer = subprocess.run(
        [sys.executable, "-P", str(program), "version", "--client"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == f"tonnage {version_of(REPOSITORY)}\n"


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("agent:1", "docker.io/library/agent:1"),
        ("platform/agent:0.2.0rc1", "docker.io/platform/agent:0.2.0rc1"),
        ("registry.example/gpu/agent:1", "registry.example/gpu/agent:1"),
        ("localhost:5000/agent:1", "localhost:5000/agent:1"),
        ("localhost/agent:1", "localhost/agent:1"),
    ],
)
def test_an_image_name_is_completed_as_containerd_does(given: str, full: str) -> None:
    assert full_name(given) == full


@pytest.mark.parametrize(
    "given", ["agent", "Agent:1", "a b:1", "agent:", ":1", "agent:1/2", "a" * 300, "agent:1\n"]
)
def test_what_is_no_image_name_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="no image name"):
        full_name(given)


@pytest.mark.parametrize("version", ["1.0 ", "1/0", '"', "latest", "1.0\n"])
def test_what_is_no_version_is_refused_before_anything_is_done(tmp_path: Path, version: str) -> None:
    with pytest.raises(ConfigError, match="no version"):
        build_image(Wish(tmp_path / "image.tar", tmp_path / "cache", version=version, name="a:1"), print, {})
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_is_built_from_a_copy_that_says_the_wanted_version(tmp_path: Path) -> None:
    before = version_of(REPOSITORY)
    staged = staged_source(REPOSITORY, tmp_path / "source", "9.8.7rc1")
    assert (version_of(staged), version_of(REPOSITORY)) == ("9.8.7rc1", before)
    assert not any("__pycache__" in path.parts for path in staged.rglob("*"))
    assert (staged / "labs/inference-sharing/lab.yaml").is_file()


def test_the_probe_reads_every_import_but_those_for_type_checkers() -> None:
    source = """
import os.path, json
from click.core import Command
from . import beside
if TYPE_CHECKING:
    import only_types
else:
    import yaml
def late():
    try:
        import pynvml
    except ImportError:
        from .sibling import thing
"""
    assert sorted(named_in(ast.parse(source))) == ["click.core", "json", "os.path", "pynvml", "yaml"]


FAKE_APT = """#!/bin/sh
for last; do :; done
case "$*" in
  *" update "*) echo "rm: a hook complains" >&2; echo "W: old lists were used" >&2;;
  *--print-uris*python3*)
    for p in python3.12-minimal_3.12.3-1 libc6_2.39-0 bash_5.2-1 libssl3t64_3.0.13-1; do
      echo "'http://mirror/$p' ${p}_amd64.deb 5 SHA256:@DIGEST@"; done;;
  *--print-uris*) echo "'http://mirror/x' tool_1%3a2-3_amd64.deb 5 SHA256:@DIGEST@";;
  *" download "*) printf "$CONTENT" > tool_1%3a2-3_amd64.deb; echo "$last" >> ../asked;;
esac
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    """apt with a mirror that serves one package, with what $CONTENT says."""
    add_program(tmp_path, "apt-get", FAKE_APT.replace("@DIGEST@", DIGEST))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("CONTENT", "hello")
    return Apt(tmp_path / "apt")


def add_program(folder: Path, name: str, text: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(text)
    (folder / "bin" / name).chmod(0o755)


def test_a_package_is_fetched_once_by_name_and_version(apt: Apt, tmp_path: Path) -> None:
    packages = apt.named(["tool"])
    assert [(p.name, p.version) for p in packages] == [("tool", "1:2-3")]
    (path,) = apt.fetch(packages)
    assert path.read_text() == "hello"
    assert apt.fetch(packages) == (path,)
    assert (tmp_path / "apt/asked").read_text() == "tool=1:2-3\n"


@pytest.mark.parametrize("content", ["hullo", "hello, world", ""])
def test_a_package_that_the_lists_do_not_know_is_refused(
    apt: Apt, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("CONTENT", content)
    with pytest.raises(ConfigError, match="is not what the signed lists say"):
        apt.fetch(apt.named(["tool"]))


def test_a_package_that_changed_on_the_disk_is_fetched_again(apt: Apt) -> None:
    (path,) = apt.fetch(apt.named(["tool"]))
    path.write_text("hullo")
    assert apt.fetch(apt.named(["tool"])) == (path,)
    assert path.read_text() == "hello"


def test_old_lists_are_told_and_a_hook_of_the_machine_is_not(apt: Apt) -> None:
    assert apt.refresh() == "W: old lists were used"


def test_packages_are_chosen_and_the_python_is_the_releases(apt: Apt) -> None:
    base = chosen_base(apt, RECIPE)
    assert [package.name for package in base.packages] == ["libc6", "libssl3t64", "python3.12-minimal"]
    assert (base.python, base.libc_minor) == ("3.12", 39)


@pytest.mark.parametrize("minor", [10, 14])
def test_a_release_with_another_python_is_refused_with_a_remedy(apt: Apt, tmp_path: Path, minor: int) -> None:
    program = tmp_path / "bin/apt-get"
    program.write_text(program.read_text().replace("3.12", f"3.{minor}"))
    with pytest.raises(ConfigError, match=rf"it is 3\.{minor}; .*\n.*Debian 12 or 13"):
        chosen_base(apt, RECIPE)


def test_apt_s_own_words_reach_the_person(apt: Apt, tmp_path: Path) -> None:
    add_program(tmp_path, "apt-get", "#!/bin/sh\necho 'E: Unable to locate package tool' >&2; exit 100\n")
    with pytest.raises(ConfigError, match="Unable to locate package tool"):
        apt.named(["tool"])


def test_a_machine_without_apt_is_told_so_in_one_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError) as raised:
        require_debian()
    (problem,) = raised.value.problems
    assert problem.why == "it has no apt-get and no dpkg-deb, so it is neither Debian nor Ubuntu"
    assert "debian:bookworm" in problem.remedy


def test_a_package_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_program(tmp_path, "dpkg-deb", "#!/bin/sh\nexit 2\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    place: Callable[[str], str | None] = str
    with pytest.raises(ConfigError, match="cannot read a package"):
        unpack(tmp_path / "x.deb", tmp_path / "root", place)


def test_apt_waits_for_one_whose_caller_was_killed(apt: Apt, tmp_path: Path) -> None:
    """apt-get itself would fail at once; the one here ends when it is told to, as the last thing it does."""
    lock, ended = tmp_path / "apt/state/lists/lock", tmp_path / "ended"
    left = f"""
import fcntl, pathlib, sys
with open({str(lock)!r}, "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
    pathlib.Path({str(ended)!r}).touch()
"""
    with subprocess.Popen(
        [sys.executable, "-c", left], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        holder.stdin.close()
        with apt.locked():
            assert ended.exists()


def test_every_pattern_says_something() -> None:
    for name in ("packages.txt", "left-out.txt"):
        lines = lines_of(RECIPE / name)
        assert len(set(lines)) == len(lines)
        assert not [line for line in lines if re.fullmatch(r"[*?/]*", line)]
