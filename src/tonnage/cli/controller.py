"""`tonnage controller`: the cluster controller as a process of its own, the entry point of its Deployment."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from tonnage.cli.ending import end_on_signals, ended_by_signals
from tonnage.cli.node.plugin_flags import CommandEnvironment, EnvironmentOption
from tonnage.cli.operator.words import label_words
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import say
from tonnage.model.actions.cluster import (
    ApplyConfigMap,
    ApplyObject,
    ApplyValidation,
    CreateEvent,
    DeleteObject,
    EvictPod,
    PatchDriverStatus,
    PatchGpuClusterStatus,
    PatchNode,
    PatchNodeStatus,
    PatchPolicyStatus,
)
from tonnage.model.actions.subjects import object_subject
from tonnage.model.json_access import mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tonnage.controller.options import ControllerOptions
    from tonnage.loop.performer import ActionRecord
    from tonnage.model.actions.action import Action
    from tonnage.model.admission import ObjectJudge
    from tonnage.model.kubernetes.cluster import Snapshot
    from tonnage.model.metric_families import MetricFamily
    from tonnage.ports.registry import ImageRegistry

_END: Final = (
    "Nothing was changed. These are the first steps; tonnage operator plan FILE shows where a policy leads."
)


@click.command(
    help="Run the cluster controller, as its Deployment does: NVIDIA's ClusterPolicy for Tonnage's agents.",
    epilog=examples(
        "tonnage controller --dry-run              # what it would change, for as long as it runs",
        "tonnage controller --dry-run --once       # what it would change now",
        "tonnage controller --metrics-address :9411",
    ),
)
@click.option(
    "--agents-namespace",
    cls=EnvironmentOption,
    envvar="NAMESPACE",
    default="tonnage-system",
    show_default=True,
    metavar="NAME",
    help="Where the agents run, and the Lease is [env: NAMESPACE].",
)
@click.option(
    "--operator-namespace",
    cls=EnvironmentOption,
    envvar="OPERATOR_NAMESPACE",
    default="gpu-operator",
    show_default=True,
    metavar="NAME",
    help="Where the ConfigMaps are that a ClusterPolicy names [env: OPERATOR_NAMESPACE].",
)
@click.option(
    "--identity",
    cls=EnvironmentOption,
    envvar="POD_NAME",
    default="",
    metavar="NAME",
    help="The name of this process in the Lease [env: POD_NAME; default: the host's name].",
)
@click.option("--no-elect", is_flag=True, help="Act without a Lease; only where a single controller runs.")
@click.option("--dry-run", is_flag=True, help="Print what would be changed, and change nothing.")
@click.option("--once", is_flag=True, help="With --dry-run: print what would be changed now, and end.")
@click.option(
    "--metrics-address",
    default="",
    metavar="IP:PORT",
    help="Serve /metrics, /healthz and /readyz at this address; :9411 for all [default: do not serve].",
)
@click.option(
    "--operand-image",
    default="",
    metavar="IMAGE",
    help="Make DaemonSets under the names of NVIDIA's operands, whose pods follow the log of the agent's part"
    " that does the work [default: none].",
)
@click.option(
    "--operand-pull-secret",
    multiple=True,
    metavar="NAME",
    help="A Secret of the operator's namespace with which that image is pulled; repeatable [default: none].",
)
@click.option(
    "--workload-image",
    default="",
    metavar="IMAGE",
    help="Validate nodes with this image's own program, which ends with 0 once it has used its device"
    " [default: a workload of Tonnage's].",
)
@click.option(
    "--drivers",
    is_flag=True,
    help="Install and upgrade the drivers that a ClusterPolicy or NVIDIADrivers ask for, by privileged pods.",
)
@click.option(
    "--evict-rejected-pods",
    is_flag=True,
    help="Evict pods that kubelet rejected before a node's devices were there, once they are and if a"
    " controller makes others; name the rest in the policy's condition.",
)
@click.option(
    "--registry",
    multiple=True,
    metavar="HOST",
    help="A registry that may be asked whether a driver's image exists, such as nvcr.io; repeatable"
    " [default: none].",
)
@click.option(
    "--webhook-address",
    default="",
    metavar="IP:PORT",
    help="Judge configurations of claims, templates and classes at admission, in the words of tonnage lint,"
    " over TLS at this address; :9443 for all [default: do not].",
)
@click.option(
    "--webhook-secret",
    default="tonnage-webhook",
    show_default=True,
    metavar="NAME",
    help="The Secret of the agents' namespace with tls.crt and tls.key.",
)
@click.option(
    "--webhook-configuration",
    default="",
    metavar="NAME",
    help="Issue the certificate, renew it in that Secret, and write whom to trust into this"
    " ValidatingWebhookConfiguration [default: somebody else does].",
)
@click.option(
    "--withdraw",
    is_flag=True,
    help="Take away what controller and agents have left in the cluster, as if there were no policy, and end;"
    " for the end of a release, once their pods are gone.",
)
@click.option(
    "--agents-divide",
    is_flag=True,
    help="With --withdraw: the agents divided GPUs, and the labels nvidia.com/mig.config.state are theirs.",
)
@click.option(
    "--upgrade-definitions",
    is_flag=True,
    help="Bring the definitions of NVIDIA's kinds that Tonnage's chart has installed to this version,"
    " and end.",
)
@click.option(
    "--cluster-metrics-interval",
    type=click.IntRange(5, 3600),
    metavar="SECONDS",
    help="Serve metrics of the cluster, too, as tonnage metrics cluster does, worked out this often by the"
    " replica that acts [default: do not].",
)
@common_options(cluster=True)
def command(common: Common, dry_run: bool, **_: str | bool | int | tuple[str, ...] | None) -> int:
    """Until SIGTERM or Ctrl-C; the Lease is given back then."""
    with ended_by_signals():
        options = controller_options(click.get_current_context())
        from tonnage.adapters.logging import set_up_logging

        set_up_logging(sys.stderr, verbose=common.verbose, level=logging.WARNING if dry_run else logging.INFO)
        return asyncio.run(_run(options, common))


def controller_options(context: click.Context) -> ControllerOptions:
    """What a command line says about the controller. Raises click.UsageError."""
    from tonnage.controller.options import ControllerOptions, WebhookOptions

    values = context.params
    if values["once"] and not values["dry_run"]:
        problem = "--once needs --dry-run: a single pass could leave a change half done."
        raise click.UsageError(problem, context)
    if values["agents_divide"] and not values["withdraw"]:
        problem = "--agents-divide needs --withdraw: it says whose labels are taken away then."
        raise click.UsageError(problem, context)
    if values["withdraw"] and values["upgrade_definitions"]:
        raise click.UsageError("--withdraw and --upgrade-definitions exclude each other.", context)
    if values["webhook_configuration"] and not values["webhook_address"]:
        raise click.UsageError("--webhook-configuration needs --webhook-address.", context)
    interval_s = values["cluster_metrics_interval"]
    if interval_s is not None and not values["metrics_address"]:
        raise click.UsageError("--cluster-metrics-interval needs --metrics-address.", context)
    return ControllerOptions(
        namespace=values["agents_namespace"],
        operator_namespace=values["operator_namespace"],
        identity=values["identity"] or socket.gethostname().lower(),
        elect=not values["no_elect"],
        dry_run=values["dry_run"],
        once=values["once"],
        metrics_address=values["metrics_address"],
        operand_image=values["operand_image"],
        operand_pull_secrets=tuple(values["operand_pull_secret"]),
        workload_image=values["workload_image"],
        drivers=values["drivers"],
        registries=tuple(values["registry"]),
        rejected_pods=values["evict_rejected_pods"],
        withdraw=values["withdraw"],
        agents_divide=values["agents_divide"],
        definitions=values["upgrade_definitions"],
        cluster_metrics_s=interval_s or 0,
        webhook=(
            WebhookOptions(
                values["webhook_address"], values["webhook_secret"], values["webhook_configuration"]
            )
            if values["webhook_address"]
            else None
        ),
    )


def controller_options_in_a_pod(words: Sequence[str], environment: Mapping[str, str]) -> ControllerOptions:
    """What a container of the embedded cluster says, which has no kubeconfig of its own.

    Its address is where a pod would serve; who runs it finds another one.

    Raises click.ClickException for what the command does not take, or not here.
    """
    parsed = command.make_context(
        "tonnage controller", list(words), obj=CommandEnvironment(environment), help_option_names=[]
    )
    for name in ("kubeconfig", "context"):
        if parsed.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} cannot be used on the twin.", parsed)
    return controller_options(parsed)


async def _run(options: ControllerOptions, common: Common) -> int:
    from tonnage.adapters.clock import SystemClock
    from tonnage.adapters.kubernetes.client import server_version
    from tonnage.cli.cluster import connected
    from tonnage.controller.counters import ControllerCounters
    from tonnage.controller.main import ControllerHost, run_controller

    task = asyncio.current_task()
    assert task is not None
    ignored = "SIGHUP ignored: the controller follows changes by itself"
    end_on_signals(asyncio.get_running_loop(), task, ignored)
    counters, withheld = ControllerCounters(), _SpokenOnce()
    try:
        async with connected(common, program="tonnage-controller", on_answer=counters.api_answered) as api:
            if options.dry_run:
                await server_version(api)  # somebody waits: a server that is away is told, not awaited
            await run_controller(
                options,
                api=api,
                clock=SystemClock(),
                counters=counters,
                withheld=withheld if options.dry_run else _say_done,
                host=ControllerHost(
                    *(_registry(options), partial(server_version, api), families_for(options)),
                    judge=judge_for(options),
                ),
            )
    except asyncio.CancelledError:
        return 0
    if options.dry_run and options.once:
        say(_END if withheld.lines else "Nothing would be changed.", err=bool(withheld.lines))
    return 0


def families_for(options: ControllerOptions) -> Callable[[Snapshot], Iterable[MetricFamily]] | None:
    """The metrics of a cluster, where they are asked for: they bring everything that explains pods."""
    if not options.cluster_metrics_s:
        return None
    from tonnage.diagnose.monitoring.cluster_families import cluster_families

    return cluster_families


def judge_for(options: ControllerOptions) -> ObjectJudge | None:
    """Who judges objects for the webhook, where there is one: it brings the rules of lint."""
    if options.webhook is None:
        return None
    from tonnage.diagnose.lint.admission import judge_claims

    return judge_claims


def _registry(options: ControllerOptions) -> ImageRegistry | None:
    if not options.drivers:
        return None
    from tonnage.adapters.http.registry import HttpRegistry

    return HttpRegistry(options.registries)


def _say_done(record: ActionRecord) -> None:
    """Say what is changed by a command that ends by itself."""
    from tonnage.loop.performer import Phase

    if record.phase is Phase.DONE:
        say(f"done: {words_of(record.action)}")


class _SpokenOnce:
    """Says what a dry run would do, each line once: nothing changes, so it is decided again and again."""

    def __init__(self) -> None:
        self.lines: set[str] = set()

    def __call__(self, withheld: ActionRecord) -> None:
        line = f"would {words_of(withheld.action)}"
        if line not in self.lines:
            self.lines.add(line)
            say(line)


def words_of(action: Action) -> str:
    """An action of the controller's in a line, what it changes at the end."""
    match action:
        case PatchNode(node, patch):
            parts = {part: mapping(patch, "metadata", part) for part in ("labels", "annotations")}
            cordon = mapping(patch, "spec").get("unschedulable", ...)
            verb = "change" if cordon is ... else "cordon" if cordon else "uncordon"
            words = [f"{part} {label_words(changes.items())}" for part, changes in parts.items() if changes]
            return f"{verb} node {node}{': ' if words else ''}{'; '.join(words)}"
        case PatchNodeStatus(node, patch):
            types = ", ".join(
                text(condition, "type") for condition in mappings(mapping(patch, "status"), "conditions")
            )
            return f"take the conditions {types} off node {node}"
        case ApplyConfigMap(namespace, name, contents, source):
            keys = ", ".join(sorted(contents)) or "no key"
            return f"fill ConfigMap {namespace}/{name} from {source or 'nothing'}: {keys}"
        case ApplyObject(kind=kind, name=name, namespace=namespace):
            return f"apply {object_subject(kind, namespace, name)}"
        case ApplyValidation(node, validation):
            stages = ", ".join(
                f"{text(stage, 'stage')} {text(stage, 'outcome')}" for stage in mappings(validation, "stages")
            )
            return f"set the validation of node {node}: {stages or 'none'}"
        case DeleteObject(kind=kind, name=name, namespace=namespace):
            return f"delete {object_subject(kind, namespace, name)}"
        case PatchPolicyStatus(name, patch):
            [ready] = (c for c in mappings(patch, "status", "conditions") if c.get("type") == "Ready")
            state = text(patch, "status", "state")
            return f"set the status of ClusterPolicy {name}: {state}, {text(ready, 'message')}"
        case PatchGpuClusterStatus(name, patch):
            return f"set the status of GPUCluster {name}: {text(patch, 'status', 'state')}"
        case PatchDriverStatus(name, patch):
            return f"set the status of NVIDIADriver {name}: {text(patch, 'status', 'state')}"
        case EvictPod(namespace, name):
            return f"evict pod {namespace}/{name}"
        case CreateEvent(namespace, event):
            return f"write an Event in {namespace}: {text(event, 'reason')}, {text(event, 'message')}"
        case _:
            return repr(action)
