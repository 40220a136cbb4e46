"""What is fuzzed: functions of bytes that return whatever they are given, and raise when something is wrong.

A target raises only for what must not happen: an exception that no caller expects, or a rule that is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Final

from fuzz import api, cluster, documents, driver, kubelet, memory, node_files, plugins, settings, streams

Target = Callable[[bytes], None]

TARGETS: Final[Mapping[str, Callable[[], AbstractContextManager[Target]]]] = MappingProxyType(
    {
        "device-plugin-config": lambda: nullcontext(documents.device_plugin_config),
        "agent-dump": lambda: nullcontext(memory.agent_dump),
        "config-kept-on-disk": lambda: nullcontext(memory.kept_config),
        "scenario": lambda: nullcontext(documents.scenario),
        "hardware": documents.hardware,
        "lab": lambda: nullcontext(documents.lab),
        "lab-command": lambda: nullcontext(documents.lab_command),
        "manifests": lambda: nullcontext(documents.manifests),
        "kubelet-checkpoint": lambda: nullcontext(kubelet.checkpoint),
        "pod-resources": lambda: nullcontext(kubelet.pod_resources),
        "allocate": kubelet.allocate,
        "prefer": kubelet.prefer,
        "mig-minors": driver.mig_minors,
        "nvml": lambda: nullcontext(driver.nvml),
        "health-kept-on-disk": lambda: nullcontext(memory.kept_health),
        "claims-kept-on-disk": lambda: nullcontext(memory.kept_claims),
        "claim-allocation": lambda: nullcontext(kubelet.claim_allocation),
        "usage-kept-on-disk": lambda: nullcontext(memory.kept_usage),
        "process-table": memory.process_table,
        "ledger-kept-on-disk": lambda: nullcontext(memory.kept_ledger),
        "mig-parted": lambda: nullcontext(settings.mig_parted),
        "mig-hooks": lambda: nullcontext(settings.mig_hooks),
        "changes": lambda: nullcontext(settings.changes),
        "change-flags": lambda: nullcontext(settings.change_flags),
        "scheduler-config": lambda: nullcontext(settings.scheduler_config),
        "kubelet-config": lambda: nullcontext(settings.kubelet_settings),
        "runtime-config": lambda: nullcontext(settings.runtime_config),
        "runtime-change": lambda: nullcontext(settings.runtime_change),
        "cdi-spec": lambda: nullcontext(settings.cdi_spec),
        "explained-manifests": settings.explained,
        "web-config": lambda: nullcontext(settings.web_config),
        "web-login": lambda: nullcontext(settings.web_login),
        "prometheus-answer": lambda: nullcontext(settings.prometheus_answer),
        "cluster-policy": lambda: nullcontext(settings.cluster_policies),
        "exporter-counters": lambda: nullcontext(settings.exporter_counters),
        "device-page": lambda: nullcontext(settings.device_page),
        "pretended-load": lambda: nullcontext(settings.pretended_load),
        "messages": lambda: nullcontext(settings.messages),
        "trace-machines": settings.trace_machines,
        "trace-jobs": settings.trace_jobs,
        "trace-packed": settings.packed_trace,
        "cluster-file": cluster.cluster_file,
        "cluster-file-packed": cluster.packed_cluster_file,
        "kubeconfig": cluster.kubeconfig,
        "api-answer": cluster.api_answers,
        "config-map": lambda: nullcontext(cluster.config_map),
        "exec-credential": cluster.exec_credential,
        "annotations": cluster.notes,
        "state-folder": cluster.running_cluster,
        "redaction": lambda: nullcontext(cluster.redaction),
        "lab-manifest": cluster.lab_manifests,
        "lab-names": lambda: nullcontext(cluster.lab_names),
        "lab-output": lambda: nullcontext(cluster.lab_output),
        "node-file": node_files.node_files,
        "address": lambda: nullcontext(node_files.addresses),
        "loader-cache": lambda: nullcontext(node_files.loader_cache),
        "agent-memory": memory.agent_memory,
        "checkpoint-file": memory.checkpoint_files,
        "pretended-devices": memory.pretended_devices,
        "kubelet-memory": memory.kubelet_memory,
        "spdy": lambda: nullcontext(streams.spdy),
        "spdy-session": streams.spdy_session,
        "websocket": streams.websocket,
        "kubelet-query": lambda: nullcontext(streams.kubelet_query),
        "kubelet-status": lambda: nullcontext(streams.told_by_kubelet),
        "watch-lines": streams.watch_lines,
        "agent-http": streams.agent_http,
        "shell": lambda: nullcontext(streams.shell),
        "archive": streams.archive,
        "plugin-messages": plugins.plugin_messages,
        "webhook-answer": lambda: nullcontext(plugins.webhook_answers),
        "trust-bundle": lambda: nullcontext(plugins.trust_bundles),
        "bearer-token": plugins.bearer_tokens,
        "api-body": api.bodies,
        "api-headers": api.headers,
        "api-json-patch": api.patches("application/json-patch+json"),
        "api-merge-patch": api.patches("application/merge-patch+json"),
        "api-strategic-patch": api.patches("application/strategic-merge-patch+json"),
        "api-apply": api.patches("application/apply-patch+yaml", b"&fieldManager=f&force=1"),
        "api-last-applied": api.last_applied,
        "api-label-selector": api.parameter("labelSelector"),
        "api-field-selector": api.parameter("fieldSelector"),
        "api-continue": api.parameter("continue"),
        "api-query": api.parameter(""),
        "api-request": api.requests,
        "api-rule": api.rules,
    }
)
"""By name: what makes the target, and afterwards removes what it needed."""
