"""Imports that import-linter cannot see are refused, those that it sees are not."""
# ruff: noqa: E501 - the tables are read by their rows

from __future__ import annotations

from pathlib import Path

import pytest

from support.planted_code import breaches_of

HIDDEN = [
    ("adapters.vendors", "def f():\n    from tonnage.adapters.vendors import nvml", "another", "one vendor of another in a function"),
    ("adapters.vendors", "import importlib\nimportlib.import_module('tonnage.adapters.vendors.nvml')", "another", "the same by its name"),
    ("adapters.vendors", "__import__('tonnage.adapters.vendors.nvml')", "another", "the same by its function"),
    ("adapters.vendors", "import sys\nsys.modules['tonnage.adapters.vendors.nvml']", "another", "the same out of what is loaded"),
    ("adapters.vendors", "import importlib as i\ni.import_module('tonnage.adapters.vendors.' + 'nvml')", "another", "the same, composed"),
    ("adapters.vendors", "from .nvml import Backend", "relative", "the same by a relative name"),
    ("adapters.vendors", "from . import nvml as n", "relative", "the same by the folder"),
    ("adapters.vendors", "from tonnage.adapters import vendors as v\nw = v\nw.nvml", "by dots", "the same by dots and an alias of an alias"),
    ("adapters.vendors", "from tonnage.adapters import vendors\ngetattr(vendors, 'nvml')", "by dots", "the same by getattr"),
    ("adapters.vendors", "import tonnage.adapters.vendors.driver\ntonnage.adapters.vendors.nvml", "by dots", "the same by its neighbour"),
    ("twin.kubelet", "from importlib import import_module as load\nload('tonnage.twin.apiserver.store')", "in a text", "a part of the twin by its name"),
    ("twin.kubelet", "from tonnage import twin\ntwin.apiserver.store", "by dots", "a part of the twin by dots"),
    ("twin.kubelet", "import importlib\ndef f(part): return importlib.import_module(f'tonnage.twin.{part}')", "not written", "any part of the twin"),
    ("twin.kubelet", "def f(name): return __import__(name)", "not written", "any module"),
    ("twin.kubelet", "class A:\n    from ..apiserver import store", "relative", "a part of the twin by a relative name"),
    ("diagnose.rules", "from tonnage.diagnose import rules as r\nr.numa.findings", "by dots", "a rule by dots"),
    ("diagnose.rules", "from tonnage.diagnose import rules\nfindings = getattr(rules, 'numa')", "by dots", "a rule by getattr"),
    ("diagnose.rules", "from importlib import import_module\nimport_module('tonnage.diagnose.rules.numa')", "importlib", "a rule by its name"),
    ("adapters.vendors", "from tonnage.adapters import vendors as v\nvars(v)['nvml']", "looks into a package", "one vendor of another by all names"),
    ("twin.kubelet", "from tonnage import twin\ntwin.apiserver.__dict__['store']", "looks into a package", "a part of the twin by all names"),
    ("twin.kubelet", "import sys\nsys.modules['tonnage.twin.' + 'apiserver']", "takes a module", "a part of the twin out of what is loaded, composed"),
    ("twin.kubelet", "from pkgutil import resolve_name as r\nr('tonnage.twin.apiserver.store:Store')", "in a text", "a class of the twin by its name"),
    ("diagnose.rules", "def f(): from . import numa", "relative", "a rule by a relative name"),
]  # fmt: skip
_THERE = (
    *("adapters/vendors/nvml", "adapters/vendors/driver", "twin/apiserver/store"),
    *("diagnose/rules/numa", "model/units"),
)


def _hidden(source: Path, room: str, code: str) -> list[str]:
    """The same as `breaches_of`, beside some modules that might be imported."""
    for name in _THERE:
        place = source / "tonnage" / f"{name}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        for folder in (place.parent, place.parent.parent):
            (folder / "__init__.py").write_text("")
    return breaches_of(source, room, code)


@pytest.mark.parametrize(
    ("room", "code", "told"), [pytest.param(*row[:3], id=f"{row[3]} ({row[0]})") for row in HIDDEN]
)
def test_an_import_that_is_hidden_is_refused(tmp_path: Path, room: str, code: str, told: str) -> None:
    found = _hidden(tmp_path, room, code)
    assert any(told in what for what in found), found


SHOWN = [
    ("twin", "from tonnage.twin.apiserver import store\nstore.x", "a module that is imported"),
    ("twin", "import tonnage.twin.apiserver.store\ntonnage.twin.apiserver.store.x", "a module by its whole name"),
    ("twin", "import importlib\nfrom tonnage.twin.apiserver import store\nimportlib.import_module('tonnage.twin.apiserver.store')", "what an import beside it says"),
    ("twin", "import importlib\nimportlib.import_module('lightkube.models')\nimportlib.import_module(f'lightkube.{1}')", "modules of others"),
    ("cli", "import importlib\ndef f(name): return importlib.import_module(name)", "the room that may import everything"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("room", "code"), [pytest.param(*row[:2], id=f"{row[2]} ({row[0]})") for row in SHOWN]
)
def test_an_import_that_is_shown_is_not_refused(tmp_path: Path, room: str, code: str) -> None:
    assert _hidden(tmp_path, room, code) == []
