"""What has to change in a container runtime's configuration for CDI, if anything has, and how to undo it.

Where the runtime has CDI already nothing is edited. Else a drop-in is preferred to an edit, and an edit is
one marked block. A plan is made for files as they stand; who carries it out checks that they still do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.decide.node.containerd_files import ContainerdFiles, containerd_files
from tonnage.decide.node.node_software import node_software
from tonnage.decide.node.runtime_versions import CDI_NEEDS, Version, can_cdi, cdi_by_default, version_of
from tonnage.decide.node.toml_block import has_block, header, whole_file, with_flag, without_blocks
from tonnage.documents.runtime_config import containerd_config, crio_config
from tonnage.model.errors import Problem
from tonnage.model.node_software import KubeletPolicies, RuntimeInventory
from tonnage.model.runtime_change import ConfigFile, FileEdit, RuntimePlan, RuntimeSeen, Standing
from tonnage.model.runtime_config import NodeRuntime, RuntimeKind

DROP_IN: Final = "99-tonnage.toml"
_KEY: Final = "enable_cdi"
_BY_VARIABLES: Final = "or deviceListStrategy: envvar with NVIDIA's container toolkit"


def cdi_plan(seen: RuntimeSeen) -> RuntimePlan:
    """What has to be done so that the runtime gives containers the CDI devices that kubelet names."""
    version = version_of(seen.version)
    if seen.problems:
        return _refused(*seen.problems)
    if seen.kind is None or version is None:
        return _refused(_unknown(seen))
    plan = _planned(seen, seen.kind, version)
    return replace(plan, inventory=inventory(seen))


def undo_plan(seen: RuntimeSeen) -> RuntimePlan:
    """What takes everything out again that was put in, and nothing that somebody changed since."""
    if seen.kind is None:
        return _refused(_unknown(seen))
    edits: list[FileEdit] = []
    problems = [*seen.problems]
    for file in seen.files:
        if file.text is None or not has_block(file.text):
            continue
        after = without_blocks(file.path, file.text)
        if isinstance(after, Problem):
            problems.append(after)
        elif file.link:
            problems.append(_linked(file))
        else:
            edits.append(FileEdit(file.path, file.text, after))
    if problems:
        return _refused(*problems)
    if not edits:
        return RuntimePlan(Standing.NOTHING, "nothing of Tonnage's stands in the runtime's configuration")
    return RuntimePlan(Standing.CHANGE, "takes out what Tonnage put in", tuple(edits))


def inventory(seen: RuntimeSeen) -> RuntimeInventory:
    """CDI and NRI of the runtime, as the node's status tells them."""
    texts = [(file.path, file.text) for file in seen.files if file.text is not None]
    read = crio_config if seen.kind is RuntimeKind.CRIO else containerd_config
    main = seen.files[0].path if seen.files else ""
    config = replace(read(texts), files=tuple(path for path, _ in texts) or (main,))
    name = seen.kind.value if seen.kind is not None else ""
    return node_software(
        NodeRuntime(runtime=f"{name}://{seen.version}", configs=(config,)), KubeletPolicies()
    ).runtime


def _planned(seen: RuntimeSeen, kind: RuntimeKind, version: Version) -> RuntimePlan:
    name = f"{kind.value} {seen.version}"
    if not can_cdi(kind, version):
        remedy = f"upgrade the runtime, {_BY_VARIABLES}"
        return _refused(Problem(f"{name} has no CDI", seen.told_by, f"it needs {CDI_NEEDS}", remedy))
    if kind is RuntimeKind.CRIO:
        return _nothing(f"{name} has CDI without a switch")
    files, problems = containerd_files(seen.files, version)
    if problems:
        return _refused(*problems)
    disabled = containerd_config([(each.file.path, each.text) for each in files.said]).cri_disabled
    if disabled:
        return _refused(_without_cri(disabled))
    if files.strangers and any(_KEY in (each.cri or {}) for each in files.said):
        return _refused(_stranger(files))
    said = files.cri().get(_KEY)
    if said is True:
        return _nothing(f"{name} has CDI: {_KEY} = true in {_speaker(files)}")
    if said is None and cdi_by_default(kind, version):
        return _nothing(f"{name} has CDI by default, and {files.main.file.path} does not say otherwise")
    return _switched_on(files, version, name)


def _speaker(files: ContainerdFiles) -> str:
    return next(
        (each.file.path for each in reversed(files.said) if each.cri is not None and _KEY in each.cri),
        files.main.file.path,
    )


def _switched_on(files: ContainerdFiles, version: Version, name: str) -> RuntimePlan:
    if files.strangers:
        return _refused(_stranger(files))
    generator, folder = files.generator(), files.drop_in_folder()
    if folder and (files.merging or files.last is None):
        edit = _drop_in(files, f"{folder}/{DROP_IN}")
    elif generator:
        return _refused(_no_place(files, generator, folder))
    else:
        edit = _in_place(files)
    if isinstance(edit, Problem):
        return _refused(edit)
    after = _after(files, edit)
    now, problems = containerd_files(after, version)
    if problems or now.cri().get(_KEY) is not True:
        return _refused(*problems, _overruled(now))
    why = "CDI is off by default" if _KEY not in files.cri() else f"{_speaker(files)} switches CDI off"
    return RuntimePlan(Standing.CHANGE, f"{name}: {why}", (edit,))


def _drop_in(files: ContainerdFiles, path: str) -> FileEdit | Problem:
    there = next((each for each in files.said if each.file.path == path), None)
    if there is not None:
        return _edited(there.file, files)
    body = f"version = {files.main.version}\n{header(files.plugin)}\n  {_KEY} = true\n"
    return FileEdit(path, None, whole_file(body))


def _in_place(files: ContainerdFiles) -> FileEdit | Problem:
    """Where the plugin's table stands last, which counts; else in the main file."""
    place = (files.last or files.main).file
    if place.text is None:
        body = f"version = {files.main.version}\n{header(files.plugin)}\n  {_KEY} = true\n"
        return FileEdit(place.path, None, whole_file(body))
    return _edited(place, files)


def _edited(file: ConfigFile, files: ContainerdFiles) -> FileEdit | Problem:
    if file.link:
        return _linked(file)
    after = with_flag(file.path, file.text or "", files.plugin, _KEY, "true")
    return after if isinstance(after, Problem) else FileEdit(file.path, file.text, after)


def _after(files: ContainerdFiles, edit: FileEdit) -> list[ConfigFile]:
    """The files as containerd reads them afterwards; a new one stands by its name among its neighbours."""
    there = [each.file for each in files.said]
    if any(file.path == edit.path for file in there):
        return [replace(file, text=edit.after) if file.path == edit.path else file for file in there]
    folder = edit.path.rpartition("/")[0]
    neighbours = [at for at, file in enumerate(there) if at and file.path.rpartition("/")[0] == folder]
    later = [at for at in neighbours if there[at].path > edit.path]
    at = later[0] if later else neighbours[-1] + 1 if neighbours else len(there)
    return [*there[:at], ConfigFile(edit.path, edit.after), *there[at:]]


def _nothing(why: str) -> RuntimePlan:
    return RuntimePlan(Standing.NOTHING, why)


def _refused(*problems: Problem) -> RuntimePlan:
    return RuntimePlan(Standing.REFUSED, problems[0].what, problems=problems)


def _unknown(seen: RuntimeSeen) -> Problem:
    said = f"{seen.kind.value if seen.kind else 'a runtime'} {seen.version}".strip()
    return Problem(
        f"which container runtime this is, is not known: {said[:100]}",
        seen.told_by,
        "what has to be written depends on its version, so nothing is guessed",
        "say it as its Node does: --runtime containerd://2.1.4 (kubectl get node -o wide)",
    )


def _linked(file: ConfigFile) -> Problem:
    return Problem(
        f"{file.path} is a symbolic link to {file.link}",
        file.path,
        "whoever made the link manages that file, and would not find a change in it",
        f"make the change there, or put a file in the place of {file.path}",
    )


def _stranger(files: ContainerdFiles) -> Problem:
    other = files.strangers[0]
    return Problem(
        f"{other.file.path} has version {other.version}, {files.main.file.path} {files.main.version}",
        other.file.path,
        "containerd does not merge what files of different versions say of the same plugin",
        "containerd config migrate, and give all files the same version",
    )


def _no_place(files: ContainerdFiles, generator: str, folder: str) -> Problem:
    main = files.main.file.path
    if folder:
        why = f"a drop-in in {folder} would take the place of everything that {main} says of the CRI plugin"
    else:
        why = f"{generator} writes {main} anew at each start, and imports no drop-ins"
    remedy = f"upgrade {generator} to a release with containerd 2, which has CDI by default, {_BY_VARIABLES}"
    return Problem(f"{generator}'s containerd cannot be given CDI", main, why, remedy)


def _without_cri(where: str) -> Problem:
    return Problem(
        "containerd is told to do without its part for Kubernetes",
        where,
        'disabled_plugins has "cri", as the configuration that Docker\'s package brings',
        "take cri out of disabled_plugins",
    )


def _overruled(files: ContainerdFiles) -> Problem:
    return Problem(
        "a later file has the last word",
        _speaker(files),
        f"files are read in the order of their names; it says {_KEY} = false",
        f"take {_KEY} out of it",
    )
