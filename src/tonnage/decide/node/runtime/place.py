"""Where a change of containerd's configuration is written: a drop-in where that is enough, else one block.

Source: how containerd puts its files together: `decide.node.runtime.containerd_files`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.runtime.containerd_files import ContainerdFiles, containerd_files
from tonnage.decide.node.runtime.toml_block import has_block, whole_file, without_blocks
from tonnage.decide.node.runtime.versions import Version
from tonnage.model.node.runtime_change import ConfigFile, FileEdit
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured, not_configured

_DROP_IN: Final = "99-tonnage.toml"
_BASE: Final = '{{ template "base" . }}\n'
"""What k3s and RKE2 would write without a template."""


@dataclass(frozen=True, slots=True)
class RuntimeFileChange:
    """What is wanted: an `edit` of a file (path, text), the `body` of a new one, and whether it `holds`.

    `instead` is what remains to do where it cannot be had.
    """

    edit: Callable[[str, str], FileEdit | RuntimeNotConfigured]
    body: str
    holds: Callable[[ContainerdFiles], bool]
    instead: str


def placed(
    files: ContainerdFiles, version: Version, change: RuntimeFileChange
) -> FileEdit | tuple[RuntimeNotConfigured, ...]:
    """The edit after which the change holds, or why there is none."""
    if files.strangers:
        return (stranger(files),)
    if files.merging and files.main.version == 1:
        return (_outdated(files),)
    generator, folder = files.generator(), files.drop_in_folder()
    if folder and (files.merging or files.last is None):
        edit = _drop_in(files, f"{folder}/{_DROP_IN}", change)
    elif generator:
        made = _by_template(files, generator, version, change)
        return (made,) if isinstance(made, RuntimeNotConfigured) else made
    else:
        edit = _in_place(files, change)
    if isinstance(edit, RuntimeNotConfigured):
        return (edit,)
    now, problems = containerd_files(_after(files, edit), version)
    if problems or not change.holds(now):
        return (*problems, _overruled(now))
    return edit


def _drop_in(files: ContainerdFiles, path: str, change: RuntimeFileChange) -> FileEdit | RuntimeNotConfigured:
    there = next((config for config in files.configs if config.file.path == path), None)
    return FileEdit(path, None, _fresh(files, change)) if there is None else _edited(there.file, change)


def _in_place(files: ContainerdFiles, change: RuntimeFileChange) -> FileEdit | RuntimeNotConfigured:
    """Where the plugin's table stands last, which counts; else in the main file."""
    place = (files.last or files.main).file
    return FileEdit(place.path, None, _fresh(files, change)) if place.text is None else _edited(place, change)


def _by_template(
    files: ContainerdFiles, generator: str, version: Version, change: RuntimeFileChange
) -> FileEdit | RuntimeNotConfigured:
    """A template that adds to what would be written without one, where that is enough and nobody has one."""
    if files.template is not None:
        return _own_template(files, files.template, generator, change)
    if files.main.file.text is None:
        there = files.main.file.path
        return not_configured(
            f"{there} does not exist", there, f"{generator} writes it when it starts", f"start {generator}"
        )
    path, block = files.new_template(), whole_file(change.body)
    main = replace(files.main.file, text=files.main.text.rstrip("\n") + "\n" + block)
    then, problems = containerd_files([main, *(config.file for config in files.configs[1:])], version)
    if not path or problems or not change.holds(then):
        return _no_place(files, generator, files.drop_in_folder(), change)
    return FileEdit(path, None, _BASE + block)


def without_template(file: ConfigFile) -> FileEdit | RuntimeNotConfigured:
    """The edit that takes out of a template what was put in, and removes one that adds nothing else."""
    edit = without_blocks(file.path, file.text or "")
    return replace(edit, after=None) if isinstance(edit, FileEdit) and edit.after == _BASE else edit


def _fresh(files: ContainerdFiles, change: RuntimeFileChange) -> str:
    return whole_file(f"version = {files.main.version}\n{change.body}")


def _edited(file: ConfigFile, change: RuntimeFileChange) -> FileEdit | RuntimeNotConfigured:
    if file.link:
        return linked(file)
    return change.edit(file.path, file.text or "")


def _after(files: ContainerdFiles, edit: FileEdit) -> list[ConfigFile]:
    """The files as containerd reads them afterwards; a new one stands by its name among its neighbours."""
    there = [config.file for config in files.configs]
    if any(file.path == edit.path for file in there):
        return [replace(file, text=edit.after) if file.path == edit.path else file for file in there]
    folder = edit.path.rpartition("/")[0]
    neighbours = [at for at, file in enumerate(there) if at and file.path.rpartition("/")[0] == folder]
    later = [at for at in neighbours if there[at].path > edit.path]
    at = later[0] if later else neighbours[-1] + 1 if neighbours else len(there)
    return [*there[:at], ConfigFile(edit.path, edit.after), *there[at:]]


def linked(file: ConfigFile) -> RuntimeNotConfigured:
    """Why a file is not written."""
    return not_configured(
        f"{file.path} is a symbolic link to {file.link}",
        file.path,
        "the program that made the link manages that file",
        f"make the change there, or replace {file.path}",
    )


def stranger(files: ContainerdFiles) -> RuntimeNotConfigured:
    """Why files of two versions are not put together."""
    other = files.strangers[0]
    return not_configured(
        f"{other.file.path} has version {other.version}, {files.main.file.path} {files.main.version}",
        other.file.path,
        "containerd does not merge what files of different versions say of the same plugin",
        "containerd config migrate, and give all files the same version",
    )


def _no_place(
    files: ContainerdFiles, generator: str, folder: str, change: RuntimeFileChange
) -> RuntimeNotConfigured:
    main = files.main.file.path
    if folder:
        why = f"a drop-in in {folder} would replace everything that {main} says of the CRI plugin"
    else:
        why = f"{generator} writes {main} again at each start, and imports no drop-ins"
    own = f", or {files.new_template()}, whole and your own" if files.new_template() else ""
    remedy = f"upgrade {generator} to a release with containerd 2, {change.instead}{own}"
    return not_configured(f"{generator}'s containerd takes no settings here", main, why, remedy)


def _own_template(
    files: ContainerdFiles, template: ConfigFile, generator: str, change: RuntimeFileChange
) -> RuntimeNotConfigured:
    main = files.main.file.path
    if template.text is not None and has_block(template.text):
        text, why = (
            f"{main} does not have what is in {template.path} yet",
            f"{generator} writes it when it starts",
        )
        return not_configured(text, template.path, why, f"restart {generator}")
    why = f"it is a template of your own, and only {generator} knows what it renders to"
    lines = " ".join(change.body.split())
    remedy = f"write there: {lines}; then restart {generator}"
    return not_configured(f"{generator} makes {main} from {template.path}", template.path, why, remedy)


def _overruled(files: ContainerdFiles) -> RuntimeNotConfigured:
    last = files.last or files.main
    return not_configured(
        "a later file overrides it",
        last.file.path,
        "files are read in the order of their names, and that one says something else",
        "remove the setting from that file",
    )


def _outdated(files: ContainerdFiles) -> RuntimeNotConfigured:
    return not_configured(
        f"{files.main.file.path} has version 1",
        files.main.file.path,
        "containerd 2 ignores what files of version 1 say of its CRI plugin",
        "containerd config migrate",
    )
