"""The chart's policy that keeps an agent to the ResourceSlices of its own node, tried by kubectl."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from support.deadlines import LIMIT_S
from support.helm import NAMESPACE, Rendered

Ask = Callable[..., subprocess.CompletedProcess[str]]
"""kubectl as the administrator, or whom `--token` names; `given` is its standard input."""
_KINDS = frozenset(
    {
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
)
REFUSED = "may write the ResourceSlices of that node alone"


def keeps_to_its_own_slices(ask: Ask, rendered: Rendered) -> None:
    """Have an agent's account on node `a` write slices of its own node, and others that it must not."""

    def done(*words: str, given: Any = None) -> str:
        run = ask(*words, given="" if given is None else json.dumps(given))
        assert run.returncode == 0, f"{words}: {run.stderr}"
        return run.stdout

    for name in (NAMESPACE, "default"):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        done("apply", "-f", "-", given=space)
    objects = [found for found in rendered.without_hooks() if found["kind"] in _KINDS]
    done("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": objects})
    for node in ("a", "b"):
        done("apply", "-f", "-", given={"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    done("apply", "-f", "-", given=_pod("agent-a", "a"))
    uid = done("get", "pod", "agent-a", "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}")
    bound = ("--bound-object-kind=Pod", "--bound-object-name=agent-a", f"--bound-object-uid={uid}")
    token = done("create", "token", "tonnage-agent", "-n", NAMESPACE, *bound).strip()
    unbound = done("create", "token", "tonnage-agent", "-n", NAMESPACE).strip()

    def as_agent(verb: str, body: Any, by: str = token) -> str:
        """Empty when it is done, else why it is not."""
        run = ask("--token", by, verb, "-f", "-", given=json.dumps(body))
        return "" if run.returncode == 0 else run.stderr

    _until(lambda: REFUSED in as_agent("create", _slice("of-b", "b")))
    assert as_agent("create", _slice("own", "a")) == ""
    assert REFUSED in as_agent("create", _slice("another-driver", "a", driver="gpu.example.com"))
    assert "does not say on which node" in as_agent("create", _slice("own-2", "a"), by=unbound)
    done("create", "-f", "-", given=_slice("of-b", "b"))
    changed = _slice("of-b", "b", generation=2)
    version = json.loads(done("get", "resourceslice", "of-b", "-o", "json"))["metadata"]["resourceVersion"]
    changed["metadata"]["resourceVersion"] = version
    assert REFUSED in as_agent("replace", changed)
    assert REFUSED in as_agent("delete", _slice("of-b", "b"))
    assert as_agent("delete", _slice("own", "a")) == ""
    done("delete", "resourceslice", "of-b")


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "the policy has no effect"
        time.sleep(0.2)


def _pod(name: str, node: str) -> Any:
    spec = {
        "nodeName": node,
        "serviceAccountName": "tonnage-agent",
        "containers": [{"name": "agent", "image": "registry.example.com/agent"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _slice(name: str, node: str, *, driver: str = "gpu.nvidia.com", generation: int = 1) -> Any:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }
