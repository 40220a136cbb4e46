"""Run by the image's Python inside the image: import all of Tonnage and all that it names anywhere.

A module that is named inside a function is imported on some bad day; here it is imported today. What only
type checkers read is not. Prints what failed; exit status 1 then.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import ssl
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import tonnage

LEFT_OUT = (
    "cel_expr_python",
    "numpy",
    "tonnage.decide.kubernetes.api",
    "tonnage.decide.kubernetes.scheduler.fleet",
    "tonnage.cli.explain.file",
    "tonnage.diagnose.explain.pending",
    "tonnage.diagnose.explain.replicas",
    "tonnage.diagnose.explain.workloads.pod_limit",
    "tonnage.diagnose.simulate",
    "tonnage.twin",
)
"""What the code that names it expects to be absent, with what is below it."""


def named_in(node: ast.AST) -> Iterator[str]:
    """Absolute module names in import statements, at any depth, but those for type checkers."""
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for statement in node.orelse:
            yield from named_in(statement)
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
    for child in ast.iter_child_nodes(node):
        yield from named_in(child)


def names() -> Iterator[str]:
    """Every module to import, the standard library's compiled ones included."""
    for module in pkgutil.walk_packages(tonnage.__path__, "tonnage."):
        if not module.name.endswith("__main__"):
            yield module.name
    for path in Path(tonnage.__file__).parent.rglob("*.py"):
        yield from named_in(ast.parse(path.read_bytes()))
    compiled = Path(sysconfig.get_path("platstdlib"), "lib-dynload")
    yield from (path.name.partition(".")[0] for path in compiled.glob("*.so"))


def main() -> int:
    failed = {}
    absent = tuple(f"{name}." for name in LEFT_OUT)
    found = sorted(name for name in set(names()) if not f"{name}.".startswith(absent))
    for name in found:
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever it is, it is the finding
            failed[name] = f"{type(error).__name__}: {error}"
    for name, text in failed.items():
        print(f"{name}: {text}")
    if not ssl.create_default_context().cert_store_stats()["x509_ca"]:
        print("no certificates of public authorities are found by default")
        return 1
    print(f"{len(found)} modules, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
