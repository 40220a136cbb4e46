"""A breach of each contract, planted in a copy, is refused by its name."""
# ruff: noqa: E501 - the tables are read by their rows

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from scripts import effects
from scripts.laws import ROOT

PLANTED = [
    ("decide/cluster/planted_port.py", "from tonnage.ports.clock import Clock", "tonnage.ports"),
    ("decide/node/planted_wire.py", "import tonnage.wire.objects as o", "tonnage.wire.objects"),
    ("decide/node/planted_cluster.py", "def f():\n    from tonnage.decide import cluster", "tonnage.decide.cluster"),
    ("decide/kubernetes/planted_node.py", "from tonnage.decide.node import share", "tonnage.decide.node.share"),
    ("decide/kubernetes/planted_kinds.py", "from tonnage.wire import kinds", "tonnage.wire.kinds"),
    ("decide/kubernetes/planted_twin.py", "from tonnage.twin.clock import X", "tonnage.twin.clock"),
    ("decide/kubernetes/planted_documents.py", "from tonnage.documents.yaml import source", "tonnage.documents.yaml.source"),
    ("diagnose/planted_loop.py", "from tonnage.loop.informer import Informer", "tonnage.loop.informer"),
    ("diagnose/planted_adapter.py", "if True:\n    import tonnage.adapters.clock as c", "tonnage.adapters.clock"),
    ("model/planted_document.py", "from tonnage.documents.yaml.source import Path", "tonnage.documents.yaml.source"),
    ("documents/planted_wire.py", "from tonnage.wire.objects import Pod", "tonnage.wire.objects"),
    ("wire/planted_model.py", "from tonnage.model.json import JsonObject", "tonnage.model.json"),
    ("reading/planted_ports.py", "from tonnage.ports import kubernetes", "tonnage.ports"),
    ("loop/planted_decision.py", "from tonnage.decide.node import allocate", "tonnage.decide.node.allocate"),
    ("adapters/planted_decision.py", "from tonnage.decide.kubernetes import matching", "tonnage.decide.kubernetes.matching"),
    ("adapters/planted_twin.py", "from tonnage.twin.clock import TwinClock", "tonnage.twin.clock"),
    ("twin/planted_adapter.py", "from tonnage.adapters.certificates import Authority", "tonnage.adapters.certificates"),
    ("twin/kubelet/planted_store.py", "from tonnage.twin.apiserver.storage import store", "tonnage.twin.apiserver.storage.store"),
    ("twin/scheduler/planted_rule.py", "from tonnage.twin.controllers.claim_reservations import _is_for", "tonnage.twin.controllers.claim_reservations"),
    ("twin/controllers/planted_server.py", "from tonnage.twin.apiserver.in_process_client import LocalKubernetes as L", "tonnage.twin.apiserver.in_process_client"),
    ("twin/kubelet/programs/planted_gpus.py", "def f():\n    from tonnage.twin.devices import scenario", "tonnage.twin.devices.scenario"),
    ("twin/scheduler/planted_kubelet.py", "import tonnage.twin.kubelet.node_spec as s", "tonnage.twin.kubelet.node_spec"),
    ("twin/apiserver/planted_controller.py", "from tonnage.twin.controllers import label_selection", "tonnage.twin.controllers.label_selection"),
    ("twin/planted_answer.py", "from tonnage.diagnose.case import Case", "tonnage.diagnose.case"),
    ("agent/mig/planted_adapter.py", "from tonnage.adapters.clock import SystemClock", "tonnage.adapters.clock"),
    ("agent/planted_twin.py", "from tonnage.twin.devices import scenario as s", "tonnage.twin.devices.scenario"),
    ("diagnose/rules/devices/planted_rule.py", "from tonnage.diagnose.rules.devices.numa import findings", "tonnage.diagnose.rules.devices.numa"),
    ("diagnose/lint/rules/planted_rule.py", "from tonnage.diagnose.lint.rules import names", "tonnage.diagnose.lint.rules.names"),
    ("decide/kubernetes/scheduler/filters/planted.py", "from tonnage.decide.kubernetes.scheduler.filters.taints import X", "tonnage.decide.kubernetes.scheduler.filters.taints"),
    ("decide/kubernetes/scheduler/scores/planted.py", "from tonnage.decide.kubernetes.scheduler.scores import balanced as b", "tonnage.decide.kubernetes.scheduler.scores.balanced"),
    ("model/planted_time.py", "from time import time", "time"),
    ("reading/planted_client.py", "from lightkube import Client", "lightkube"),
    ("decide/node/planted_library.py", "import numpy as np", "numpy"),
    ("agent/metrics/planted_page.py", "from prometheus_client import Counter", "prometheus_client"),
    ("loop/planted_count.py", "def f():\n    import prometheus_client as p", "prometheus_client"),
    ("agent/mig/planted_program.py", "from subprocess import run", "subprocess"),
    ("ports/planted_document.py", "def f():\n    import tonnage.documents.yaml.source as s", "tonnage.documents.yaml.source"),
    ("ports/planted_reading.py", "from tonnage.reading.cluster import snapshot_from as s", "tonnage.reading.cluster"),
    ("ports/planted_thread.py", "if True:\n    from threading import Lock as l", "threading"),
    ("ports/planted_library.py", "class A:\n    import msgspec as m", "msgspec"),
    ("diagnose/rules/planted_lazily.py", "def f():\n    import tonnage.diagnose.rules.scheduling.cluster_wide as h", "tonnage.diagnose.rules.scheduling.cluster_wide"),
    ("diagnose/rules/planted_order.py", "from tonnage.diagnose.rules.order import RULES as r", "tonnage.diagnose.rules.order"),
    ("diagnose/lint/rules/planted_class.py", "class A:\n    from tonnage.diagnose.lint.rules.names import x as y", "tonnage.diagnose.lint.rules.names"),
    ("decide/kubernetes/scheduler/filters/planted_try.py", "try:\n    import tonnage.decide.kubernetes.scheduler.filters.taints\nexcept ImportError: ...", "tonnage.decide.kubernetes.scheduler.filters.taints"),
    ("decide/kubernetes/scheduler/scores/planted_order.py", "def f():\n    from tonnage.decide.kubernetes.scheduler.scores.order import x", "tonnage.decide.kubernetes.scheduler.scores.order"),
    ("twin/kubelet/planted_fleet.py", "from tonnage.twin.fleet import TwinNodes as f", "tonnage.twin.fleet"),
    ("twin/devices/planted_population.py", "def f():\n    import tonnage.twin.population as p", "tonnage.twin.population"),
    ("twin/apiserver/planted_nodes.py", "class A:\n    from tonnage.twin.light_nodes import LightNodes", "tonnage.twin.light_nodes"),
    ("twin/apiserver/serving/planted_store.py", "from tonnage.twin.apiserver.storage.store import Store", "tonnage.twin.apiserver.storage.store"),
    ("twin/apiserver/printers/planted_commits.py", "def f():\n    import tonnage.twin.apiserver.storage.group_commit as g", "tonnage.twin.apiserver.storage.group_commit"),
    ("twin/apiserver/discovery/planted_database.py", "if True:\n    from tonnage.twin.apiserver.storage import database as d", "tonnage.twin.apiserver.storage.database"),
    ("twin/apiserver/planted_face.py", "class A:\n    from tonnage.twin.apiserver import storage", "tonnage.twin.apiserver.storage"),
    ("twin/planted_store.py", "try:\n    import tonnage.twin.apiserver.storage.store\nexcept ImportError: ...", "tonnage.twin.apiserver.storage.store"),
    ("twin/apiserver/storage/planted_face.py", "from tonnage.twin.apiserver.serving.http import X as x", "tonnage.twin.apiserver.serving.http"),
    ("twin/apiserver/storage/planted_printer.py", "def f():\n    from tonnage.twin.apiserver import printers", "tonnage.twin.apiserver.printers"),
    ("controller/operator/planted_adapter.py", "def f():\n    from tonnage.adapters.clock import SystemClock as s", "tonnage.adapters.clock"),
    ("controller/webhook/planted_answer.py", "import tonnage.diagnose.lint.lint as k", "tonnage.diagnose.lint.lint"),
    ("controller/operator/planted_thread.py", "try:\n    from threading import Thread\nexcept ImportError: ...", "threading"),
    ("controller/operator/planted_program.py", "class A:\n    import subprocess as s", "subprocess"),
    ("controller/operator/probes.py", "def _planted():\n    from tonnage.controller.operator.validations import X", "tonnage.controller.operator.validations"),
    ("controller/operator/drivers.py", "import tonnage.controller.operator.policies as _p", "tonnage.controller.operator.policies"),
    ("agent/claims/planted_adapter.py", "if True:\n    from tonnage.adapters.kubelet import claim_sockets as c", "tonnage.adapters.kubelet.claim_sockets"),
    ("agent/exporter/planted_policy.py", "from tonnage.decide.cluster.operate import gpu_cluster as g", "tonnage.decide.cluster.operate.gpu_cluster"),
    ("decide/cluster/operate/planted_kinds.py", "from tonnage.wire.kinds import NODE", "tonnage.wire.kinds"),
    ("decide/cluster/adopt/planted_loop.py", "class A:\n    from tonnage.loop.performer import Performer as p", "tonnage.loop.performer"),
    ("decide/node/claims/planted_port.py", "def f():\n    import tonnage.ports.claims as c", "tonnage.ports.claims"),
    ("diagnose/migrate/planted_reading.py", "from tonnage.reading.claims import claim_from as c", "tonnage.reading.claims"),
    ("agent/mig/planted_constructor.py", "from tonnage.agent.main import backend_of as b", "tonnage.agent.main"),
    ("agent/labels/planted_claims.py", "def f():\n    from tonnage.agent.claims import main", "tonnage.agent.claims.main"),
    ("controller/operator/planted_constructor.py", "import tonnage.controller.main as m", "tonnage.controller.main"),
    ("twin/planted_constructor.py", "class A:\n    from tonnage.twin.cluster import Cluster", "tonnage.twin.cluster"),
    ("twin/controllers/planted_devices.py", "if True:\n    from tonnage.twin import devices as d", "tonnage.twin.devices"),
]  # fmt: skip
"""(module, what is in it, what it must not import)."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its laws, with a breach of each law planted."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.pyi"))
    shutil.copy(ROOT / ".importlinter", root)
    for place, code, _ in PLANTED:
        with (root / "src/tonnage" / place).open("a") as module:
            module.write(f"\n{code}\n")
    return root


def test_every_import_that_is_planted_is_refused_by_name(copied: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copied / "src"), "COLUMNS": "400"}
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=copied,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    told = done.stdout + done.stderr
    edges = [
        f"tonnage.{place.removesuffix('.py').replace('/', '.')} -> {taken}" for place, _, taken in PLANTED
    ]
    assert [edge for edge in edges if edge not in told] == [], told
    assert done.returncode == 1


def test_the_list_of_modules_with_effects_is_whole() -> None:
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    listed = set(config["importlinter:contract:effects"]["forbidden_modules"].split())
    permitted = {"importlib"} | {name.partition(".")[0] for name in effects.PLAIN | effects.PLAIN_NAMES}
    public = {name for name in sys.stdlib_module_names if not name.startswith("_")}
    assert sorted(public - listed - permitted) == []
    assert sorted(listed & {name.partition(".")[0] for name in effects.PLAIN}) == []


def test_every_loop_that_the_controller_makes_is_kept_from_the_others() -> None:
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    listed = set(config["importlinter:contract:controller_loops"]["modules"].split())
    tree = ast.parse((ROOT / "src/tonnage/controller/main.py").read_text(encoding="utf-8"))
    made = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(name.name.endswith("Loop") for name in node.names)
    }
    assert made <= listed
