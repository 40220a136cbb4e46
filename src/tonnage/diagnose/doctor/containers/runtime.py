"""Can the container runtime bring GPUs into containers, and is it told to?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.node.runtime.containerd_files import templates_of
from tonnage.decide.node.runtime.handler import handler_twice
from tonnage.decide.node.runtime.versions import (
    version_of,
)
from tonnage.diagnose.doctor.containers.injection import injection_findings
from tonnage.diagnose.doctor.containers.runtime_version import CONFIGURE, ExaminedRuntime, runtime_of, unit_of
from tonnage.diagnose.doctor.containers.toolkit import toolkit_findings
from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, finding, listed
from tonnage.diagnose.doctor.kubernetes.operator_release import operator_findings
from tonnage.model.devices.sharing import DeviceListStrategy
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import NodeFacts, RuntimeFacts
from tonnage.model.node.runtime_config import RuntimeConfig
from tonnage.model.reasons.messages.node_symptoms import RuntimeHandlerMissing
from tonnage.model.reasons.node.runtime import (
    NvidiaDocker2Left,
    NvidiaRuntimeDefault,
    RuntimeConfigInvalid,
    RuntimeCriDisabled,
    RuntimeHandlerTwice,
    RuntimeProgramMissing,
)
from tonnage.model.severity import Severity

_LAYER: Final = NodeLayer.RUNTIME


def judge_runtime(facts: NodeFacts, runtime: RuntimeFacts, *, gpus: bool) -> Judgement:
    """`gpus`: there are NVIDIA GPUs, so that a way for them into containers is needed."""
    kind, version = runtime_of(runtime, facts.cluster)
    config = next((candidate for candidate in runtime.configs if candidate.kind is kind), None)
    general = [*_general(runtime), *_toolkit(facts, runtime), *operator_findings(facts)]
    if kind is None:
        contained = facts.kubelet is not None and facts.kubelet.contained
        why = (
            "doctor sees no container runtime here" if not runtime.configs else "two runtimes are configured"
        )
        hint = ": in a pod, mount the host's / and give --root" if contained else ""
        return Judgement(_LAYER, tuple(general), because=f"{why}{hint}")
    node_runtime = ExaminedRuntime(runtime, kind, version, version_of(version), config or RuntimeConfig(kind))
    findings = [
        *general,
        *_programs(node_runtime),
        *_twice(node_runtime),
        *_default(node_runtime),
        *_classes(node_runtime, facts),
    ]
    if gpus:
        findings += injection_findings(node_runtime, facts)
    return Judgement(_LAYER, tuple(findings), _summary(node_runtime))


def _summary(runtime: ExaminedRuntime) -> str:
    words = {True: "on", False: "off", None: "not known"}
    handlers = [handler.name for handler in runtime.config.handlers.values() if handler.is_nvidia]
    parts = [runtime.name, f"CDI {words[runtime.cdi]}", f"NRI {words[runtime.nri]}"]
    return ", ".join([*parts, f"handler {listed(handlers)}"] if handlers else parts)


def _general(runtime: RuntimeFacts) -> Iterator[NodeFinding]:
    for config in runtime.configs:
        for problem in config.problems:
            unreadable = problem.why.startswith("permission denied")
            yield finding(
                RuntimeConfigInvalid(
                    message=f"{config.kind.value}'s configuration: {problem.what}",
                    remedy="run doctor as root"
                    if unreadable
                    else f"correct it, then systemctl restart {unit_of(config.kind)}",
                    runtime=config.kind.value,
                    problem=problem.what,
                ),
                where=problem.where,
                why=problem.why,
                severity=Severity.NOTE if unreadable else Severity.ERROR,
            )
        if config.cri_disabled:
            yield finding(
                RuntimeCriDisabled(
                    message="containerd's CRI plugin is switched off",
                    remedy="remove cri from disabled_plugins, then systemctl restart containerd",
                ),
                where=config.cri_disabled,
                why='disabled_plugins has "cri", as the configuration that Docker\'s package brings',
            )
    if "nvidia-docker2" in runtime.packages:
        yield finding(
            NvidiaDocker2Left(
                message=f"the obsolete nvidia-docker2 {runtime.packages['nvidia-docker2']} is installed",
                remedy="apt-get purge nvidia-docker2 && apt-get install nvidia-container-toolkit",
                version=runtime.packages["nvidia-docker2"],
            ),
            where="/var/lib/dpkg/status",
            why="it pins old versions of the toolkit and rewrites /etc/docker/daemon.json",
        )


def _toolkit(facts: NodeFacts, runtime: RuntimeFacts) -> Iterator[NodeFinding]:
    config = facts.plugin.config if facts.plugin is not None else None
    by_variable = config is None or DeviceListStrategy.ENVVAR in config.device_list
    if runtime.toolkit is not None:
        yield from toolkit_findings(runtime.toolkit, runtime.existing, by_variable=by_variable)


def _programs(runtime: ExaminedRuntime) -> Iterator[NodeFinding]:
    for handler in runtime.config.handlers.values():
        if handler.program and handler.program not in runtime.facts.existing:
            yield finding(
                RuntimeProgramMissing(
                    message=f"the program of runtime handler {handler.name} is missing: {handler.program}",
                    remedy="install nvidia-container-toolkit, or remove the handler and restart the runtime"
                    if handler.is_nvidia
                    else f"install {handler.program}, or remove the handler and restart the runtime",
                    handler=handler.name,
                    program=handler.program,
                ),
                where=handler.where,
                why="every container with that handler stays in ContainerCreating",
            )


def _twice(runtime: ExaminedRuntime) -> Iterator[NodeFinding]:
    for config in runtime.facts.configs:
        read = {
            path: config.templates[path]
            for path in templates_of("".join(config.files[:1]))
            if path in config.templates
        }
        if (twice := handler_twice(read, runtime.facts.programs)) is None:
            continue
        template, program = twice
        yield finding(
            RuntimeHandlerTwice(
                message="handler nvidia is defined twice: containerd would not start again",
                remedy="remove it from the template (tonnage runtime undo if Tonnage wrote it), then restart",
                program=program,
            ),
            where=template,
            why=f"k3s and RKE2 add it where they find {program}, and so does the template",
        )


def _default(runtime: ExaminedRuntime) -> Iterator[NodeFinding]:
    handler = runtime.config.handlers.get(runtime.config.default)
    if handler is not None and handler.is_nvidia:
        yield finding(
            NvidiaRuntimeDefault(
                message=f"NVIDIA's runtime is the default ({handler.name})",
                remedy="use deviceListStrategy cdi-cri, which needs no such runtime, and runc as the default",
                handler=handler.name,
            ),
            where=runtime.config.default_where,
            why="any pod may set NVIDIA_VISIBLE_DEVICES=all and see every GPU without asking for one",
        )


def _classes(runtime: ExaminedRuntime, facts: NodeFacts) -> Iterator[NodeFinding]:
    classes = facts.cluster.runtime_classes if facts.cluster is not None else {}
    used = {pod.runtime_class for pod in facts.cluster.pods} if facts.cluster is not None else set()
    handlers = {*runtime.config.handlers, *(("runc",) if not runtime.config.handlers else ())}
    for name, handler in classes.items():
        if "nvidia" not in handler or handler in handlers or not runtime.config.files:
            continue
        yield finding(
            RuntimeHandlerMissing(
                subject="",
                message=f"RuntimeClass {name} wants handler {handler}, "
                f"which {runtime.kind.value} does not have",
                remedy=CONFIGURE
                if handler == "nvidia"
                else f"nvidia-ctk runtime configure --runtime={unit_of(runtime.kind)}"
                f" && systemctl restart {unit_of(runtime.kind)}",
                handler=handler,
                handlers=tuple(sorted(handlers)),
                runtime_class=name,
            ),
            where=listed(runtime.config.files, 2),
            why=f"its pods get 'no runtime for \"{handler}\" is configured' here",
            severity=Severity.ERROR if name in used else Severity.NOTE,
        )
