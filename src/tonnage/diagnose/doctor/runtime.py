"""Can the container runtime bring GPUs into containers, and is it told to?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.cdi.spec import wants_cdi
from tonnage.decide.node.runtime.containerd_files import templates_of
from tonnage.decide.node.runtime.handler import handler_twice
from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    NRI_NEEDS,
    Version,
    can_cdi,
    can_nri,
    cdi_by_default,
    cdi_said,
    nri_by_default,
    version_of,
)
from tonnage.diagnose.doctor.finding import DoctorCode, Finding, Judgement, error, listed, note, warning
from tonnage.diagnose.doctor.operator_release import operator_findings
from tonnage.diagnose.doctor.toolkit import toolkit_findings
from tonnage.diagnose.doctor.versions import runtime_of
from tonnage.model.devices.sharing import DeviceListStrategy
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import NodeFacts, RuntimeFacts
from tonnage.model.node.runtime_config import CDI_FOLDER, RuntimeConfig, RuntimeKind

_LAYER: Final = NodeLayer.RUNTIME
_CONFIGURE: Final = "tonnage runtime apply --nvidia-runtime --restart"


@dataclass(frozen=True, slots=True)
class _Runtime:
    """kubelet's runtime. `cdi` and `nri`: whether it does so, None where that cannot be told."""

    facts: RuntimeFacts
    kind: RuntimeKind
    told: str
    version: Version | None
    config: RuntimeConfig

    @property
    def name(self) -> str:
        return f"{self.kind.value} {self.told}".strip()

    @property
    def cdi(self) -> bool | None:
        if self.version is not None and not can_cdi(self.kind, self.version):
            return False
        if self.config.cdi_elsewhere:
            return False
        said = cdi_said(self.config, self.version)
        if said is not None and self.kind is RuntimeKind.CONTAINERD:
            return said
        return None if self.version is None else cdi_by_default(self.kind, self.version)

    @property
    def nri(self) -> bool | None:
        if self.config.nri is not None:
            return self.config.nri
        return None if self.version is None else nri_by_default(self.kind, self.version)


def judge_runtime(facts: NodeFacts, runtime: RuntimeFacts, *, gpus: bool) -> Judgement:
    """`gpus`: there are NVIDIA GPUs, so that a way for them into containers is needed."""
    kind, told = runtime_of(runtime, facts.cluster)
    config = next((each for each in runtime.configs if each.kind is kind), None)
    general = [*_general(runtime), *_toolkit(facts, runtime), *operator_findings(facts)]
    if kind is None:
        contained = facts.kubelet is not None and facts.kubelet.contained
        why = "no container runtime is seen here" if not runtime.configs else "two runtimes are configured"
        hint = ": in a pod, mount the host's / and give --root" if contained else ""
        return Judgement(_LAYER, tuple(general), because=f"{why}{hint}")
    seen = _Runtime(runtime, kind, told, version_of(told), config or RuntimeConfig(kind))
    findings = [*general, *_programs(seen), *_twice(seen), *_default(seen), *_classes(seen, facts)]
    if gpus:
        findings += [*_cdi(seen, facts), *_nri(seen), *_no_way(seen, facts)]
    return Judgement(_LAYER, tuple(findings), _summary(seen))


def _summary(seen: _Runtime) -> str:
    words = {True: "on", False: "off", None: "not known"}
    handlers = [handler.name for handler in seen.config.handlers.values() if handler.is_nvidia]
    said = [seen.name, f"CDI {words[seen.cdi]}", f"NRI {words[seen.nri]}"]
    return ", ".join([*said, f"handler {listed(handlers)}"] if handlers else said)


def _general(runtime: RuntimeFacts) -> Iterator[Finding]:
    for config in runtime.configs:
        for problem in config.problems:
            unreadable = problem.why.startswith("permission denied")
            make = note if unreadable else error
            yield make(
                DoctorCode.RUNTIME_CONFIG,
                _LAYER,
                f"{config.kind.value}'s configuration: {problem.what}",
                where=problem.where,
                why=problem.why,
                remedy="run doctor as root"
                if unreadable
                else f"correct it, then systemctl restart {_unit(config.kind)}",
            )
        if config.cri_disabled:
            yield error(
                DoctorCode.RUNTIME_CRI_OFF,
                _LAYER,
                "containerd is told to do without its part for Kubernetes",
                where=config.cri_disabled,
                why='disabled_plugins has "cri", as the configuration that Docker\'s package brings',
                remedy="take cri out of disabled_plugins, then systemctl restart containerd",
            )
    if "nvidia-docker2" in runtime.packages:
        yield warning(
            DoctorCode.NVIDIA_DOCKER2,
            _LAYER,
            f"a leftover: nvidia-docker2 {runtime.packages['nvidia-docker2']} is installed",
            where="/var/lib/dpkg/status",
            why="it is superseded, pins old versions of the toolkit and rewrites /etc/docker/daemon.json",
            remedy="apt-get purge nvidia-docker2 && apt-get install nvidia-container-toolkit",
        )


def _toolkit(facts: NodeFacts, runtime: RuntimeFacts) -> Iterator[Finding]:
    config = facts.plugin.config if facts.plugin is not None else None
    by_variable = config is None or DeviceListStrategy.ENVVAR in config.device_list
    if runtime.toolkit is not None:
        yield from toolkit_findings(runtime.toolkit, runtime.existing, by_variable=by_variable)


def _unit(kind: RuntimeKind) -> str:
    return "crio" if kind is RuntimeKind.CRIO else "containerd"


def _programs(seen: _Runtime) -> Iterator[Finding]:
    for handler in seen.config.handlers.values():
        if handler.program and handler.program not in seen.facts.existing:
            yield error(
                DoctorCode.RUNTIME_PROGRAM,
                _LAYER,
                f"the program of runtime handler {handler.name} is not there: {handler.program}",
                where=handler.where,
                why="every container with that handler stays in ContainerCreating",
                remedy="install nvidia-container-toolkit, or take the handler out and restart the runtime"
                if handler.is_nvidia
                else f"install {handler.program}, or take the handler out and restart the runtime",
            )


def _twice(seen: _Runtime) -> Iterator[Finding]:
    for config in seen.facts.configs:
        read = {
            path: config.templates[path]
            for path in templates_of("".join(config.files[:1]))
            if path in config.templates
        }
        if (found := handler_twice(read, seen.facts.programs)) is None:
            continue
        template, program = found
        yield error(
            DoctorCode.RUNTIME_HANDLER_TWICE,
            _LAYER,
            "handler nvidia would be there twice at the next start, and containerd does not start so",
            where=template,
            why=f"k3s and RKE2 add it by themselves where they find {program}, and the template does, too",
            remedy="take it out of the template (tonnage runtime undo, if Tonnage put it in), then restart",
        )


def _default(seen: _Runtime) -> Iterator[Finding]:
    handler = seen.config.handlers.get(seen.config.default)
    if handler is not None and handler.is_nvidia:
        yield note(
            DoctorCode.RUNTIME_DEFAULT,
            _LAYER,
            f"NVIDIA's runtime is the default ({handler.name})",
            where=seen.config.default_where,
            why="any pod may set NVIDIA_VISIBLE_DEVICES=all and see every GPU without asking for one",
            remedy="with CDI no such runtime is needed: deviceListStrategy cdi-cri, and runc as default",
        )


def _classes(seen: _Runtime, facts: NodeFacts) -> Iterator[Finding]:
    classes = facts.cluster.runtime_classes if facts.cluster is not None else {}
    used = {pod.runtime_class for pod in facts.cluster.pods} if facts.cluster is not None else set()
    known = {*seen.config.handlers, *(("runc",) if not seen.config.handlers else ())}
    for name, handler in classes.items():
        if "nvidia" not in handler or handler in known or not seen.config.files:
            continue
        make = error if name in used else note
        yield make(
            DoctorCode.RUNTIME_CLASS,
            _LAYER,
            f"RuntimeClass {name} wants handler {handler}, which {seen.kind.value} does not have",
            where=listed(seen.config.files, 2),
            why=f"its pods get 'no runtime for \"{handler}\" is configured' here",
            remedy=_CONFIGURE
            if handler == "nvidia"
            else f"nvidia-ctk runtime configure --runtime={_unit(seen.kind)}"
            f" && systemctl restart {_unit(seen.kind)}",
        )


def _cdi(seen: _Runtime, facts: NodeFacts) -> Iterator[Finding]:
    config = facts.plugin.config if facts.plugin is not None else None
    if config is None or not wants_cdi(config) or seen.cdi is not False:
        return
    asks = "the agent's configuration names devices by CDI"
    if seen.version is not None and not can_cdi(seen.kind, seen.version):
        yield error(
            DoctorCode.CDI_UNSUPPORTED,
            _LAYER,
            f"{seen.name} knows no CDI",
            where=listed(seen.config.files, 2),
            why=f"{asks}; it works with {CDI_NEEDS}",
            remedy="upgrade the runtime, or deviceListStrategy: envvar",
        )
    elif seen.config.cdi_elsewhere:
        yield error(
            DoctorCode.CDI_DISABLED,
            _LAYER,
            f"{seen.name} reads no CDI specs of {CDI_FOLDER}",
            where=seen.config.cdi_elsewhere,
            why=f"{asks}, whose specs are written there: 'unresolvable CDI devices'",
            remedy=f'add "{CDI_FOLDER}" to cdi_spec_dirs, then systemctl restart {_unit(seen.kind)}',
        )
    else:
        silent = seen.config.cdi_replaced or listed(seen.config.files, 1)
        yield error(
            DoctorCode.CDI_DISABLED,
            _LAYER,
            f"CDI is off in {seen.name}",
            where=silent if cdi_said(seen.config, seen.version) is None else seen.config.cdi_where,
            why=f"{asks}; containers start without them",
            remedy="tonnage runtime plan on the node shows the change, tonnage runtime apply makes it",
        )


def _nri(seen: _Runtime) -> Iterator[Finding]:
    """RUN-3."""
    wanted = seen.facts.nri_plugins
    if not wanted:
        return
    if seen.version is not None and not can_nri(seen.kind, seen.version):
        yield error(
            DoctorCode.NRI_UNSUPPORTED,
            _LAYER,
            f"NRI is asked for, and {seen.name} does not support NVIDIA's plugin",
            where=wanted[0],
            why=f"it works with {NRI_NEEDS}",
            remedy="cdi.nriPluginEnabled=false for this node's ClusterPolicy, or upgrade the runtime",
        )
    elif seen.nri is False:
        yield error(
            DoctorCode.NRI_DISABLED,
            _LAYER,
            f"NRI is asked for, and off in {seen.name}",
            where=seen.config.nri_where or wanted[0],
            why="the plugin waits for a socket that nobody opens",
            remedy="disable = false under io.containerd.nri.v1.nri (CRI-O: enable_nri = true), then restart",
        )


def _no_way(seen: _Runtime, facts: NodeFacts) -> Iterator[Finding]:
    """RUN-2: a container starts, and nvidia-smi is not found."""
    handlers = [each for each in seen.config.handlers.values() if each.is_nvidia]
    specs = [
        spec
        for spec in (facts.cdi.specs if facts.cdi is not None else ())
        if spec.document is not None and "nvidia.com" in str(spec.document.get("kind"))
    ]
    by_cdi = bool(specs) and seen.cdi is not False
    if handlers or by_cdi or seen.facts.hooks or seen.facts.nri_plugins:
        return
    if not seen.config.files or any(config.problems for config in seen.facts.configs):
        return  # what stands there is not known
    config = facts.plugin.config if facts.plugin is not None else None
    if config is not None and wants_cdi(config):
        return  # a missing or refused spec is told of where specs are
    off = " and CDI is off" if specs else "; there is no CDI spec either"
    tool = "installed" if seen.facts.programs else "not installed"
    yield error(
        DoctorCode.NO_INJECTION,
        _LAYER,
        f"no GPU gets into a container: {seen.name} has no NVIDIA runtime handler{off}",
        where=listed(seen.config.files, 2) or "/etc/cdi",
        why=f"NVIDIA's container toolkit is {tool}. Containers start, and 'nvidia-smi' is not found in them",
        remedy="deviceListStrategy: [cdi-cri] for the agent, which needs no toolkit; or install"
        f" nvidia-container-toolkit && {_CONFIGURE}",
    )
