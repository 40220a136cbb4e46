"""What has to change in a container runtime's configuration for CDI, if anything has, and how to undo it.

Where the runtime has CDI already nothing is edited. Else a drop-in is preferred to an edit, and an edit is
one marked block. A plan is made for files as they stand; who carries it out checks that they still do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.decide.node.runtime.containerd_files import ContainerdFiles, containerd_files
from tonnage.decide.node.runtime.node_software import node_software
from tonnage.decide.node.runtime.place import RuntimeFileChange, linked, placed, stranger, without_template
from tonnage.decide.node.runtime.toml_block import has_block, tables_body, with_flag, without_blocks
from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    Version,
    can_cdi,
    cdi_by_default,
    kubelet_cdi,
    version_of,
)
from tonnage.documents.node.runtime_config import containerd_config, crio_config
from tonnage.model.node.runtime_change import ChangeState, FileEdit, RuntimePlan, RuntimeSeen
from tonnage.model.node.runtime_config import CDI_FOLDER, NodeRuntime, RuntimeConfig, RuntimeKind
from tonnage.model.node.software import KubeletPolicies, RuntimeInventory
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured, not_configured

_KEY: Final = "enable_cdi"
_BY_VARIABLES: Final = "or deviceListStrategy: envvar with NVIDIA's container toolkit"
_AS_THE_NODE: Final = "--runtime containerd://2.1.4 (kubectl get node -o wide)"


def cdi_plan(runtime: RuntimeSeen) -> RuntimePlan:
    """What has to be done so that the runtime gives containers the CDI devices that kubelet names."""
    version = version_of(runtime.version)
    if runtime.refusals:
        return refused(*runtime.refusals)
    if runtime.kind is None or version is None:
        return refused(unknown(runtime))
    plan = _planned(runtime, runtime.kind, version)
    return replace(plan, inventory=inventory(runtime))


def undo_plan(runtime: RuntimeSeen) -> RuntimePlan:
    """What takes everything out again that was put in, and nothing that somebody changed since."""
    if runtime.kind is None:
        return refused(unknown(runtime))
    edits: list[FileEdit] = []
    refusals = [*runtime.refusals]
    for file in (*runtime.templates, *runtime.files):
        if file.text is None or not has_block(file.text):
            continue
        edit = without_template(file) if file in runtime.templates else without_blocks(file.path, file.text)
        if isinstance(edit, RuntimeNotConfigured):
            refusals.append(edit)
        elif file.link:
            refusals.append(linked(file))
        else:
            edits.append(edit)
    if refusals:
        return refused(*refusals)
    if not edits:
        return RuntimePlan(ChangeState.NOTHING, "the runtime's configuration has nothing that Tonnage wrote")
    return RuntimePlan(ChangeState.CHANGE, "Removes what Tonnage wrote.", tuple(edits))


def inventory(runtime: RuntimeSeen) -> RuntimeInventory:
    """CDI and NRI of the runtime, as the node's status tells them."""
    main = runtime.files[0].path if runtime.files else ""
    config = _read(runtime)
    config = replace(config, files=config.files or (main,))
    name = runtime.kind.value if runtime.kind is not None else ""
    return node_software(
        NodeRuntime(runtime=f"{name}://{runtime.version}", configs=(config,)), KubeletPolicies()
    ).runtime


def _planned(runtime: RuntimeSeen, kind: RuntimeKind, version: Version) -> RuntimePlan:
    name = f"{kind.value} {runtime.version}"
    if not can_cdi(kind, version):
        remedy = f"upgrade the runtime, {_BY_VARIABLES}"
        return refused(
            not_configured(f"{name} has no CDI", runtime.version_source, f"it needs {CDI_NEEDS}", remedy)
        )
    read = _read(runtime)
    if read.cdi_elsewhere and kind is RuntimeKind.CRIO:
        return refused(_elsewhere(name, read.cdi_elsewhere))
    if not kubelet_cdi(kind, version):
        text, why = f"{name} takes no CDI devices from kubelet", "device names from kubelet need CRI-O 1.28"
        remedy = "upgrade the runtime, or set deviceListStrategy: cdi-annotations"
        return refused(not_configured(text, runtime.version_source, why, remedy))
    if kind is RuntimeKind.CRIO:
        return _nothing(f"{name} has CDI without a switch")
    files, problems = containerd_files(runtime.files, version, runtime.templates)
    if problems:
        return refused(*problems)
    disabled = without_cri(files)
    if disabled is not None:
        return refused(disabled)
    if read.cdi_elsewhere:
        return refused(_elsewhere(name, read.cdi_elsewhere))
    if files.strangers and any(_KEY in (file.cri or {}) for file in files.configs):
        return refused(stranger(files))
    setting = files.cri().get(_KEY)
    if setting is True:
        return _nothing(f"{name} has CDI: {_KEY} = true in {_speaker(files)}")
    if setting is None and cdi_by_default(kind, version):
        return _nothing(f"{name} has CDI by default, and {files.main.file.path} does not say otherwise")
    return _switched_on(files, version, name)


def _read(runtime: RuntimeSeen) -> RuntimeConfig:
    texts = [(file.path, file.text) for file in runtime.files if file.text is not None]
    return crio_config(texts) if runtime.kind is RuntimeKind.CRIO else containerd_config(texts)


def _elsewhere(name: str, where: str) -> RuntimeNotConfigured:
    return not_configured(
        f"{name} reads no CDI specs in {CDI_FOLDER}",
        where,
        "the agent writes its specs there, but cdi_spec_dirs does not name the folder",
        f'add "{CDI_FOLDER}" to cdi_spec_dirs, then restart it',
    )


def _speaker(files: ContainerdFiles) -> str:
    return next(
        (
            config.file.path
            for config in reversed(files.configs)
            if config.cri is not None and _KEY in config.cri
        ),
        files.main.file.path,
    )


def _switched_on(files: ContainerdFiles, version: Version, name: str) -> RuntimePlan:
    edit = placed(files, version, _cdi(files))
    if not isinstance(edit, FileEdit):
        return refused(*edit)
    why = "CDI is off by default" if _KEY not in files.cri() else f"{_speaker(files)} switches CDI off"
    return RuntimePlan(ChangeState.CHANGE, f"{name}: {why}", (edit,))


def _cdi(files: ContainerdFiles) -> RuntimeFileChange:
    def edit(path: str, text: str) -> FileEdit | RuntimeNotConfigured:
        return with_flag(path, text, files.plugin, _KEY, "true")

    body = tables_body({files.plugin: {_KEY: "true"}})
    return RuntimeFileChange(edit, body, lambda now: now.cri().get(_KEY) is True, _BY_VARIABLES)


def _nothing(why: str) -> RuntimePlan:
    return RuntimePlan(ChangeState.NOTHING, why)


def refused(*refusals: RuntimeNotConfigured) -> RuntimePlan:
    """A plan that says why nothing is done."""
    return RuntimePlan(ChangeState.REFUSED, refusals[0].message, refusals=refusals)


def unknown(runtime: RuntimeSeen) -> RuntimeNotConfigured:
    """What is missing to plan anything."""
    if runtime.kind is None and runtime.name:
        docker = (
            "nvidia-ctk runtime configure --runtime=docker is for Docker; "
            if "docker" in runtime.name
            else ""
        )
        return not_configured(
            f"{runtime.name} {runtime.version}".strip() + " is neither containerd nor CRI-O",
            runtime.version_source,
            "no other runtime is configured here",
            f"{docker}for kubelet's runtime, name it as its Node does: {_AS_THE_NODE}",
        )
    name = f"{runtime.kind.value} {runtime.version}".strip() if runtime.kind else ""
    return not_configured(
        f"Tonnage does not know this container runtime: {name[:100]}"
        if name
        else "no container runtime was recognised",
        runtime.version_source,
        "what must be written depends on its version",
        f"name it as its Node does: {_AS_THE_NODE}",
    )


def without_cri(files: ContainerdFiles) -> RuntimeNotConfigured | None:
    """What is wrong where containerd's part for Kubernetes is switched off."""
    where = containerd_config([(config.file.path, config.text) for config in files.configs]).cri_disabled
    if not where:
        return None
    return not_configured(
        "containerd's CRI plugin is switched off",
        where,
        'disabled_plugins has "cri", as the configuration that Docker\'s package brings',
        "remove cri from disabled_plugins",
    )
