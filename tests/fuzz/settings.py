"""Files that people and programs set nodes and clusters up with: read, or refused with words."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from fuzz.documents import offline, text_of
from tonnage.adapters.http.web_access import credentials
from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.cli.locations.labs_and_scenarios import read_text
from tonnage.cli.metrics.query import data_of
from tonnage.cli.simulate.trace import _text as trace_text
from tonnage.decide.node.cdi.runtime_verdicts import spec_verdicts
from tonnage.decide.node.runtime.change import cdi_plan, undo_plan
from tonnage.diagnose.lint.lint import lint
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.messages import match_lines, matches_in
from tonnage.diagnose.pasted.refusals import refusal_json, refusals_in
from tonnage.diagnose.pasted.scheduling import scheduling_texts
from tonnage.diagnose.pasted.text import refusal_lines, scheduling_lines
from tonnage.diagnose.top.columns import View
from tonnage.diagnose.top.layout import screen
from tonnage.diagnose.top.screen_state import ScreenState
from tonnage.diagnose.top.usage import fleet_usage
from tonnage.documents.changes import amount_of, chosen_nodes, parse_changes
from tonnage.documents.device_page import parse_page
from tonnage.documents.exporter_counters import read_counters
from tonnage.documents.mig.hooks import parse_gpu_clients, parse_mig_hooks
from tonnage.documents.mig.layouts import parse_mig_parted
from tonnage.documents.node.kubelet_config import CPU, MEMORY, kubelet_config, manager_policy
from tonnage.documents.node.runtime_config import containerd_config, crio_config, imports_of, toolkit_config
from tonnage.documents.pretended_load import parse_load
from tonnage.documents.scheduler.config import scheduler_profiles
from tonnage.documents.trace import jobs_from, machines_from
from tonnage.documents.web_config import read_web_config
from tonnage.model.devices.cdi import SpecFile
from tonnage.model.devices.pretended_load import PretendedLoad
from tonnage.model.errors import ClusterError, ConfigError
from tonnage.model.node.device_usage import DevicePage
from tonnage.model.node.runtime_change import ConfigFile, RuntimeSeen
from tonnage.model.node.runtime_config import RuntimeKind
from tonnage.reading.documents import manifests_from_documents
from tonnage.reading.gpu_policy import gpu_policy_from, operator_manifests
from tonnage.reading.manifests import read_manifests
from tonnage.twin.devices.load.activity import RunningLoad, activity

Target = Callable[[bytes], None]
_CONTAINERD: Final = "/etc/containerd/config.toml"


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[], Iterator[Target]]:
    """A target that finds its input in a file of a folder of its own."""

    def made() -> Iterator[Target]:
        with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
            file = Path(folder) / name

            def target(data: bytes) -> None:
                file.write_bytes(data)
                with suppress(ConfigError):
                    read(file)

            yield target

    return made


def mig_parted(data: bytes) -> None:
    """As the agent reads it, and as lint does where it is named as one."""
    with suppress(ConfigError):
        parse_mig_parted(text_of(data), source="x")
    lint([Sheet("m.yaml", text_of(data))], replace(offline(), mig_parted=frozenset({"m.yaml"})))


def mig_hooks(data: bytes) -> None:
    for parse in (parse_mig_hooks, parse_gpu_clients):
        with suppress(ConfigError):
            parse(text_of(data), source="x")


def changes(data: bytes) -> None:
    with suppress(ConfigError):
        parse_changes(text_of(data), source="x")


def change_flags(data: bytes) -> None:
    """What stands behind flags: nodes, and amounts."""
    text = text_of(data)
    for read in (chosen_nodes, lambda said: amount_of("cpu", said), lambda said: amount_of("pods", said)):
        with suppress(ValueError):
            read(text)


def scheduler_config(data: bytes) -> None:
    with suppress(ConfigError):
        scheduler_profiles(text_of(data), "x")


def kubelet_settings(data: bytes) -> None:
    with suppress(ConfigError):
        kubelet_config(text_of(data), "x")
    for name in (CPU, MEMORY):
        with suppress(ConfigError):
            manager_policy(name, text_of(data), "x")


def runtime_config(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    containerd_config(((_CONTAINERD, text), ("/etc/containerd/conf.d/a.toml", text)))
    crio_config((("/etc/crio/crio.conf", text),))
    toolkit_config("/etc/nvidia-container-runtime/config.toml", text)
    imports_of(text)


def runtime_change(data: bytes) -> None:
    """The change of a runtime's configuration that `tonnage runtime` plans and takes back."""
    text = data.decode("utf-8", "replace")
    for kind, path in ((RuntimeKind.CONTAINERD, _CONTAINERD), (RuntimeKind.CRIO, "/etc/crio/crio.conf")):
        seen = RuntimeSeen(kind, "1.7.24", files=(ConfigFile(path, text),))
        cdi_plan(seen)
        undo_plan(seen)


def cdi_spec(data: bytes) -> None:
    """As JSON and as YAML, with every problem at its place."""
    spec_verdicts(SpecFile(f"/etc/cdi/a.{ending}", "/etc/cdi", data) for ending in ("json", "yaml"))


def web_config(data: bytes) -> None:
    with suppress(ConfigError):
        read_web_config(text_of(data), "x")


def web_login(data: bytes) -> None:
    """Whose password the header of a request says that it is."""
    user, password = credentials(data.decode("latin-1"))
    assert isinstance(password, bytes)
    user.encode()


def prometheus_answer(data: bytes) -> None:
    with suppress(ClusterError):
        data_of(data, "http://x")


def cluster_policies(data: bytes) -> None:
    """What a policy wants and which of its fields have no effect."""
    with suppress(ConfigError):
        for policy in operator_manifests(text_of(data), "x").policies:
            gpu_policy_from(policy)


def exporter_counters(data: bytes) -> None:
    read_counters(data, "x")


def device_page(data: bytes) -> None:
    """A page of device metrics, and the screen that shows it."""
    page = parse_page(data.decode("utf-8", "replace"), "x")
    if isinstance(page, DevicePage):
        usage = fleet_usage({}, {"n": page})
        for view in View:
            lines = screen(usage, ScreenState(view), ("a note",), (60, 20), {})
            assert all(len(line) <= 60 and line.isprintable() for line in lines)


def pretended_load(data: bytes) -> None:
    """The annotation of a pod's load; what is taken keeps its memory and its demand within bounds."""
    load = parse_load(data.decode("utf-8", "replace"))
    if isinstance(load, PretendedLoad):
        for age_s in (-1.0, 0.0, 19.0, 1e7):
            used = activity([RunningLoad(load, age_s, seed=3)] * 3, 81920)
            assert 0 <= used.busy <= 1
            assert 0 <= used.active <= 1
            assert 0 <= used.memory_mib <= 81920


def messages(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for heard in matches_in(text):
        match_lines(heard)
        heard.to_json()
    for message in scheduling_texts(text):
        scheduling_lines(message)
        message.to_json()
    for part in refusals_in(text):
        refusal_lines(part)
        refusal_json(part)


def _trace(read: Callable[[str, str], object]) -> Callable[[Path], object]:
    return lambda file: read(trace_text(file, SizeLimit()), "x")


def _manifests(file: Path) -> None:
    """Objects of custom kinds are counted, too."""
    manifests_from_documents(read_manifests(read_text(file), str(file)), may_be_none=True)


explained = contextmanager(in_file("pod.yaml", _manifests))
trace_machines = contextmanager(in_file("nodes.csv", _trace(machines_from)))
trace_jobs = contextmanager(in_file("pods.csv", _trace(jobs_from)))


@contextmanager
def packed_trace() -> Iterator[Target]:
    """Bytes that should be gzip, and what unpacks as they are."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        file = Path(folder) / "nodes.csv.gz"

        def target(data: bytes) -> None:
            for content in (data, gzip.compress(data, 1)):
                file.write_bytes(content)
                with suppress(ConfigError):
                    machines_from(trace_text(file, SizeLimit()), "x")

        yield target
