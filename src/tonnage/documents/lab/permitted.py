"""What a lab may run: programs, their subcommands, and the options of each. Nothing else is run.

On it stands what reaches no further than the lab's cluster and the files beside it. Not on it are, among
others: what chooses another cluster or user (`--kubeconfig`, `--context`, `--server`, `--as`), what runs a
program here (`kubectl edit`, `config`, plugins, `helm --post-renderer`), what reads or writes other files
(`kubectl cp`, `-k`, `helm --set-file`), what listens or connects elsewhere (`proxy`, `--repo`). A snapshot
is written into the run's private folder alone, which goes with the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tonnage.documents.lab.options import OptionKind


class Arguments(Enum):
    """What the words that are no options name."""

    NONE = auto()
    NAMES = auto()
    """Of objects, or anything else that is no file."""
    FILES = auto()
    """One or more."""
    ANY_FILES = auto()
    CHART = auto()
    """Names, and last a chart: a folder."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """A command that a lab may run."""

    options: Mapping[str, OptionKind]
    arguments: Arguments = Arguments.NAMES
    changes: bool = False
    """Whether it changes the cluster, or runs something there."""
    container: bool = False
    """Whether a container's command follows `--`."""


def _of(kind: OptionKind, names: str) -> dict[str, OptionKind]:
    return dict.fromkeys(names.split(), kind)


def _switches(names: str) -> dict[str, OptionKind]:
    return _of(OptionKind.SWITCH, names)


def _texts(names: str) -> dict[str, OptionKind]:
    return _of(OptionKind.TEXT, names)


_NAMESPACE: Final = _texts("-n --namespace")
_OUTPUT: Final = _of(OptionKind.FORMAT, "-o --output")
_MANIFEST: Final = _of(OptionKind.FILE, "-f --filename")

_SCOPE: Final = {**_NAMESPACE, **_texts("--request-timeout")}
_SELECTED: Final = _texts("-l --selector --field-selector")
_EVERYWHERE: Final = _switches("-A --all-namespaces")
_SHOWN: Final = {**_SCOPE, **_OUTPUT, **_switches("--show-managed-fields --allow-missing-template-keys")}
_CHANGED: Final = {**_SHOWN, **_switches("--dry-run"), **_texts("--field-manager")}
_ON_OBJECTS: Final = {**_CHANGED, **_SELECTED, **_MANIFEST, **_switches("--all")}
_MADE: Final = {**_CHANGED, **_switches("--validate --save-config")}
_ENDED: Final = {**_switches("--wait --force --now --cascade"), **_texts("--grace-period --timeout")}
_LABELLED: Final = {
    **_ON_OBJECTS,
    **_EVERYWHERE,
    **_switches("--overwrite --list"),
    **_texts("--resource-version"),
}
_NODES: Final = {**_CHANGED, **_SELECTED}


def _looks(options: Mapping[str, OptionKind], arguments: Arguments = Arguments.NAMES) -> Permitted:
    return Permitted(options, arguments)


def _changes(options: Mapping[str, OptionKind], arguments: Arguments = Arguments.NAMES) -> Permitted:
    return Permitted(options, arguments, changes=True)


def _creates(texts: str, switches: str = "", *, container: bool = False) -> Permitted:
    options = {**_MADE, **_texts(texts), **_switches(switches)}
    return Permitted(options, changes=True, container=container)


_CONFIG_MAP: Final = Permitted(
    {
        **_MADE,
        **_texts("--from-literal"),
        **_switches("--append-hash"),
        **_of(OptionKind.KEYED_FILE, "--from-file"),
        **_of(OptionKind.FILE, "--from-env-file"),
    },
    changes=True,
)
_SECRET: Final = Permitted({**_CONFIG_MAP.options, **_texts("--type")}, changes=True)
_ROLLOUT: Final = {**_SHOWN, **_MANIFEST, **_texts("-l --selector")}

_KUBECTL: Final = {
    "get": _looks(
        {
            **_SHOWN,
            **_SELECTED,
            **_MANIFEST,
            **_EVERYWHERE,
            **_switches("--ignore-not-found --no-headers --show-kind --show-labels --server-print"),
            **_texts("-L --label-columns --chunk-size --sort-by --subresource"),
            **_of(OptionKind.SERVER_PATH, "--raw"),
        }
    ),
    "describe": _looks(
        {**_SCOPE, **_MANIFEST, **_EVERYWHERE, **_switches("--show-events"), **_texts("-l --selector")}
    ),
    "logs": _looks(
        {
            **_SCOPE,
            **_switches(
                "-f --follow -p --previous --timestamps --prefix --all-containers --all-pods --ignore-errors"
            ),
            **_texts("-c --container -l --selector --tail --since --since-time --limit-bytes"),
            **_texts("--max-log-requests --pod-running-timeout"),
        }
    ),
    "events": _looks({**_SHOWN, **_EVERYWHERE, **_switches("--no-headers"), **_texts("--for --types")}),
    "wait": _looks(
        {**_SHOWN, **_SELECTED, **_MANIFEST, **_EVERYWHERE, **_switches("--all"), **_texts("--for --timeout")}
    ),
    "explain": _looks({**_switches("--recursive"), **_texts("--api-version")}),
    "api-resources": _looks(
        {
            **_OUTPUT,
            **_switches("--no-headers --namespaced"),
            **_texts("--api-group --verbs --sort-by --categories"),
        },
        Arguments.NONE,
    ),
    "api-versions": _looks({}, Arguments.NONE),
    "version": _looks({**_OUTPUT, **_switches("--client")}, Arguments.NONE),
    "top pod": _looks(
        {
            **_SCOPE,
            **_SELECTED,
            **_EVERYWHERE,
            **_switches("--containers --no-headers"),
            **_texts("--sort-by"),
        }
    ),
    "top node": _looks({**_switches("--no-headers"), **_texts("-l --selector --sort-by")}),
    "auth can-i": _looks(
        {**_SCOPE, **_EVERYWHERE, **_switches("--list --no-headers -q --quiet"), **_texts("--subresource")}
    ),
    "auth whoami": _looks(_OUTPUT, Arguments.NONE),
    "apply": _changes(
        {
            **_MADE,
            **_MANIFEST,
            **_ENDED,
            **_texts("-l --selector --subresource"),
            **_switches("--server-side --force-conflicts --overwrite"),
        },
        Arguments.NONE,
    ),
    "create": _changes({**_MADE, **_MANIFEST, **_texts("-l --selector")}, Arguments.NONE),
    "create namespace": _creates(""),
    "create configmap": _CONFIG_MAP,
    "create secret generic": _SECRET,
    "create serviceaccount": _creates(""),
    "create deployment": _creates("--image --replicas --port", container=True),
    "create job": _creates("--image --from", container=True),
    "create cronjob": _creates("--image --schedule --restart", container=True),
    "create quota": _creates("--hard --scopes"),
    "create priorityclass": _creates("--value --description --preemption-policy", "--global-default"),
    "create poddisruptionbudget": _creates("--selector --min-available --max-unavailable"),
    "create role": _creates("--verb --resource --resource-name"),
    "create clusterrole": _creates("--verb --resource --resource-name --non-resource-url --aggregation-rule"),
    "create rolebinding": _creates("--role --clusterrole --user --group --serviceaccount"),
    "create clusterrolebinding": _creates("--clusterrole --user --group --serviceaccount"),
    "create service clusterip": _creates("--tcp --clusterip"),
    "replace": _changes({**_MADE, **_MANIFEST, **_ENDED, **_texts("--subresource")}, Arguments.NONE),
    "patch": _changes(
        {
            **_CHANGED,
            **_MANIFEST,
            **_texts("-p --patch --type --subresource"),
            **_of(OptionKind.FILE, "--patch-file"),
        }
    ),
    "delete": _changes({**_ON_OBJECTS, **_EVERYWHERE, **_ENDED, **_switches("--ignore-not-found")}),
    "label": _changes(_LABELLED),
    "annotate": _changes(_LABELLED),
    "scale": _changes(
        {**_ON_OBJECTS, **_texts("--replicas --current-replicas --resource-version --timeout")}
    ),
    "set image": _changes(_ON_OBJECTS),
    "set resources": _changes({**_ON_OBJECTS, **_texts("-c --containers --limits --requests")}),
    "rollout status": _looks({**_ROLLOUT, **_switches("-w --watch"), **_texts("--revision --timeout")}),
    "rollout history": _looks({**_ROLLOUT, **_texts("--revision")}),
    "rollout restart": _changes({**_ROLLOUT, **_texts("--field-manager")}),
    "rollout undo": _changes({**_ROLLOUT, **_switches("--dry-run"), **_texts("--to-revision")}),
    "rollout pause": _changes({**_ROLLOUT, **_texts("--field-manager")}),
    "rollout resume": _changes({**_ROLLOUT, **_texts("--field-manager")}),
    "taint": _changes({**_NODES, **_switches("--overwrite --all --validate")}),
    "cordon": _changes({**_switches("--dry-run"), **_texts("-l --selector")}),
    "uncordon": _changes({**_switches("--dry-run"), **_texts("-l --selector")}),
    "drain": _changes(
        {
            **_switches("--dry-run --delete-emptydir-data --disable-eviction --force --ignore-daemonsets"),
            **_texts("-l --selector --pod-selector --grace-period --timeout --skip-wait-for-delete-timeout"),
        }
    ),
    "run": Permitted(
        {
            **_CHANGED,
            **_switches("--command --privileged"),
            **_texts(
                "--image --image-pull-policy --restart -l --labels --annotations --env --port --overrides"
            ),
            **_texts("--override-type"),
        },
        changes=True,
        container=True,
    ),
    "exec": Permitted(
        {
            **_SCOPE,
            **_switches("-i --stdin -t --tty -q --quiet"),
            **_texts("-c --container --pod-running-timeout"),
        },
        changes=True,
        container=True,
    ),
}

_VALUES: Final = {
    **_NAMESPACE,
    **_of(OptionKind.FILE, "-f --values"),
    **_texts("--set --set-string --set-json --set-literal --timeout --description"),
    **_switches("--create-namespace --wait --wait-for-jobs --dry-run --no-hooks --skip-crds --debug"),
}
_RELEASE: Final = {**_NAMESPACE, **_OUTPUT, **_texts("--revision")}
_RENDERED: Final = {**_VALUES, **_switches("-g --generate-name")}

_HELM: Final = {
    "install": _changes(
        {**_RENDERED, **_OUTPUT, **_switches("--replace --atomic --hide-notes")}, Arguments.CHART
    ),
    "upgrade": _changes(
        {
            **_VALUES,
            **_OUTPUT,
            **_switches("-i --install --atomic --cleanup-on-fail --force --hide-notes"),
            **_switches("--reuse-values --reset-values --reset-then-reuse-values"),
        },
        Arguments.CHART,
    ),
    "template": _looks(
        {**_RENDERED, **_switches("--include-crds --is-upgrade"), **_texts("-s --show-only")}, Arguments.CHART
    ),
    "uninstall": _changes(
        {
            **_NAMESPACE,
            **_switches("--wait --dry-run --ignore-not-found --keep-history --no-hooks"),
            **_texts("--timeout --cascade --description"),
        }
    ),
    "rollback": _changes({**_NAMESPACE, **_switches("--wait --dry-run --no-hooks"), **_texts("--timeout")}),
    "list": _looks(
        {**_NAMESPACE, **_OUTPUT, **_EVERYWHERE, **_switches("-q --short -a --all")}, Arguments.NONE
    ),
    "status": _looks(_RELEASE),
    "history": _looks({**_NAMESPACE, **_OUTPUT, **_texts("--max")}),
    "get values": _looks({**_RELEASE, **_switches("-a --all")}),
    "get manifest": _looks({**_NAMESPACE, **_texts("--revision")}),
    "get notes": _looks({**_NAMESPACE, **_texts("--revision")}),
}

_ANSWER: Final = {**_OUTPUT, **_switches("-v --verbose")}
_CAPTURED: Final = {**_ANSWER, **_of(OptionKind.SNAPSHOT, "--snapshot"), **_texts("--server-version")}

_HANDOVER: Final = _changes(
    {
        **_ANSWER,
        **_texts("-l --selector --node --operator-namespace --agents-namespace --parallel --timeout"),
        **_switches("--dry-run"),
    },
    Arguments.NONE,
)

_TONNAGE: Final = {
    "status": _looks({**_CAPTURED, **_NAMESPACE, **_texts("-l --selector")}),
    "explain": _looks(
        {
            **_CAPTURED,
            **_NAMESPACE,
            **_switches("--all-pending"),
            **_of(OptionKind.FILE, "-f --filename --scheduler-config"),
        }
    ),
    "lint": _looks({**_CAPTURED, **_NAMESPACE, **_switches("--dry-run --diff")}, Arguments.FILES),
    "snapshot": _looks(
        {**_NAMESPACE, **_texts("--redact"), **_of(OptionKind.WRITTEN_FILE, "--file")}, Arguments.NONE
    ),
    "claims": _looks({**_CAPTURED, **_NAMESPACE}),
    "migrate dra": _looks({**_CAPTURED, **_NAMESPACE, **_switches("--diff --no-cluster")}, Arguments.FILES),
    "convert": _looks({**_ANSWER, **_switches("--diff")}, Arguments.FILES),
    "topo": _looks({**_CAPTURED, **_texts("--gpus")}),
    "simulate": _looks(
        {
            **_CAPTURED,
            **_NAMESPACE,
            **_switches("--replay"),
            **_texts(
                "--add-nodes --set-mig --set-sharing --uncordon --cordon --drain --remove-nodes --scale"
            ),
            **_of(OptionKind.COUNTED_FILE, "--add-workload"),
            **_of(OptionKind.FILE, "--scheduler-config"),
        },
        Arguments.NONE,
    ),
    "access": _looks({**_ANSWER, **_NAMESPACE, **_switches("--check"), **_texts("--user --group")}),
    "simulate trace": _looks({**_ANSWER, **_texts("--policy --seeds --arrivals")}, Arguments.FILES),
    "mig profiles": _looks({**_ANSWER, **_texts("--product")}, Arguments.NONE),
    "mig layouts": _looks({**_ANSWER, **_texts("--product"), **_switches("--media")}, Arguments.NONE),
    "mig plan": _looks(
        {
            **_CAPTURED,
            **_switches("--try-evictions"),
            **_texts("--config --layout --demand --node --product --gpus"),
        },
        Arguments.ANY_FILES,
    ),
    "mig lint": _looks(_ANSWER, Arguments.FILES),
    "operator status": _looks(
        {**_ANSWER, **_texts("--operator-namespace --agents-namespace")}, Arguments.NONE
    ),
    "operator plan": _looks(
        {**_ANSWER, **_texts("--operator-namespace --agents-namespace")}, Arguments.FILES
    ),
    "operator adopt": _changes({**_HANDOVER.options, **_switches("--finish")}, _HANDOVER.arguments),
    "operator release": _HANDOVER,
    "operator rollback": _changes({**_texts("--operator-namespace"), **_switches("-v --verbose --dry-run")}),
    "cdi validate": _looks(_ANSWER, Arguments.FILES),
    "hardware": _looks({**_ANSWER, **_switches("--reboot"), **_texts("--gpu --xid --health --mig")}),
    "metrics query": _looks(_ANSWER),
    "metrics targets": _looks({**_NAMESPACE, **_switches("-v --verbose")}, Arguments.NONE),
    "version": _looks({**_ANSWER, **_switches("--client")}, Arguments.NONE),
}

PERMITTED: Final[Mapping[str, Mapping[str, Permitted]]] = {
    "kubectl": _KUBECTL,
    "helm": _HELM,
    "tonnage": _TONNAGE,
}
"""Program -> subcommand, its words with a blank between -> what it may be given."""
