"""What has to change so that a container runtime has a handler `nvidia`, for pods that do without CDI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.runtime.change import inventory, refused, unknown, without_cri
from tonnage.decide.node.runtime.containerd_files import ContainerdFiles, containerd_files
from tonnage.decide.node.runtime.place import RuntimeFileChange, linked, placed
from tonnage.decide.node.runtime.toml_block import Settings, tables_body, whole_file, with_tables
from tonnage.decide.node.runtime.versions import Version, version_of
from tonnage.documents.node.runtime_config import crio_config
from tonnage.model.node.runtime_change import ChangeState, FileEdit, RuntimePlan, RuntimeSeen
from tonnage.model.node.runtime_config import RuntimeKind
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured, not_configured, not_read

HANDLER: Final = "nvidia"
_PROGRAM: Final = "nvidia-container-runtime"
_SEARCHED: Final = (
    "/usr/local/nvidia/toolkit",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
)
_BY_ITSELF: Final = frozenset((folder, _PROGRAM) for folder in _SEARCHED)
"""Source: k3s, which looks in the first and where packages put it, later releases in PATH."""
_ADDED: Final = re.compile(rf"^\s*\[plugins\..+\.runtimes\.([\"']?){HANDLER}\1\]", re.MULTILINE)
_BASE: Final = 'template "base"'
_CRIO_FOLDER: Final = "/etc/crio/crio.conf.d"
_CRIO_FILE: Final = f"{_CRIO_FOLDER}/99-tonnage.conf"
_TWICE: Final = (
    "a template with the handler as well would define one table twice, and containerd would not start"
)
_RUNC: Final = "io.containerd.runc.v2"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/+-]{1,300}")
_CLASS: Final = "pods reach it by a RuntimeClass with handler nvidia"
_BY_CDI: Final = "or deviceListStrategy: cdi-cri, which needs no handler"


@dataclass(frozen=True, slots=True)
class HostProgram:
    """A program on the node, as a person named it or by its path."""

    path: str


def handler_plan(runtime: RuntimeSeen, program: str, there: Iterable[str] = ()) -> RuntimePlan:
    """What has to be done so that handler `nvidia` runs that program; `there` are others on the node.

    It never becomes the default one: then any pod could see every GPU by a variable.
    """
    version = version_of(runtime.version)
    if runtime.refusals:
        return refused(*runtime.refusals)
    if runtime.kind is None or version is None:
        return refused(unknown(runtime))
    if not program.startswith("/") or _PLAIN.fullmatch(program) is None:
        return refused(_strange(program))
    crio = runtime.kind is RuntimeKind.CRIO
    plan = _crio(runtime, program) if crio else _containerd(runtime, version, program, (program, *there))
    return replace(plan, inventory=inventory(runtime))


def nvidia_program(
    programs: Iterable[str], path_or_name: str, there: Callable[[str], bool]
) -> HostProgram | RuntimeNotConfigured:
    """NVIDIA's runtime on the node: that at `path_or_name`, else the first of those that are found.

    >>> nvidia_program(["/usr/bin/nvidia-container-runtime"], "", lambda path: True)
    HostProgram(path='/usr/bin/nvidia-container-runtime')
    """
    program = path_or_name or next((path for path in programs if path.endswith(f"/{_PROGRAM}")), "")
    if program and (not path_or_name or not path_or_name.startswith("/") or there(path_or_name)):
        return HostProgram(program)  # one that is no path is refused for what it is
    return not_configured(
        f"program not found: {path_or_name[:200]}" if path_or_name else f"{_PROGRAM} not found",
        "--nvidia-runtime",
        "every container with that handler would stay in ContainerCreating",
        "install nvidia-container-toolkit, or use deviceListStrategy cdi-cri, which does not need it",
    )


def _containerd(runtime: RuntimeSeen, version: Version, program: str, programs: Iterable[str]) -> RuntimePlan:
    name = f"containerd {runtime.version}"
    files, problems = containerd_files(runtime.files, version, runtime.templates)
    disabled = without_cri(files)
    if problems or disabled is not None:
        return refused(*problems, *([disabled] if disabled is not None else []))
    there = _program(files)
    if there is not None:
        template = files.template
        texts = {template.path: template.text or ""} if template is not None else {}
        if (doubled := handler_twice(texts, programs)) is not None:
            return refused(_doubled(files.generator(), *doubled))
        return _existing_handler(name, there, program, (files.last or files.main).file.path)
    change = _change(files, program)
    edit = placed(files, version, change)
    if isinstance(edit, FileEdit) and edit.path.endswith(".tmpl") and (twice := _twice(files, programs)):
        return refused(twice)
    return _done(name, edit) if isinstance(edit, FileEdit) else refused(*edit)


def handler_twice(templates: Mapping[str, str], programs: Iterable[str]) -> tuple[str, str] | None:
    """The template that adds the handler to k3s' base, and the program by which k3s adds it as well.

    >>> added = '{{ template "base" . }}\\n[plugins."cri".containerd.runtimes.nvidia]'
    >>> handler_twice({"config.toml.tmpl": added}, ["/usr/bin/nvidia-container-runtime"])
    ('config.toml.tmpl', '/usr/bin/nvidia-container-runtime')
    >>> handler_twice({"config.toml.tmpl": added}, ["/opt/bin/nvidia-container-runtime"])
    """
    adding = (path for path, text in templates.items() if _BASE in text and _ADDED.search(text))
    template, program = next(adding, None), _by_itself(programs)
    return (template, program) if template and program else None


def _by_itself(programs: Iterable[str]) -> str:
    """By which of them k3s and RKE2 add the handler to their base, whatever a template adds; empty: none."""
    return next((path for path in programs if path.rpartition("/")[::2] in _BY_ITSELF), "")


def _doubled(generator: str, template: str, program: str) -> RuntimeNotConfigured:
    return not_configured(
        f"{generator} adds handler {HANDLER} by itself at its next start, and {template} as well",
        program,
        _TWICE,
        f"tonnage runtime undo removes what Tonnage wrote; then restart {generator}",
    )


def _twice(files: ContainerdFiles, programs: Iterable[str]) -> RuntimeNotConfigured | None:
    if not (path := _by_itself(programs)):
        return None
    generator = files.generator()
    return not_configured(
        f"{generator} adds handler {HANDLER} by itself",
        path,
        f"it finds that program when it starts; {_TWICE}",
        f"restart {generator}",
    )


def _crio(runtime: RuntimeSeen, program: str) -> RuntimePlan:
    name = f"CRI-O {runtime.version}"
    texts = [(file.path, file.text) for file in runtime.files if file.text is not None]
    config = crio_config(texts)
    unread = [file for file in runtime.files if file.trouble]
    troubles = [not_configured(f"{file.path} cannot be read", file.path, file.trouble) for file in unread]
    if config.problems or troubles:
        return refused(*map(not_read, config.problems), *troubles)
    handler = config.handlers.get(HANDLER)
    if handler is not None:
        return _existing_handler(name, handler.program, program, handler.where)
    settings = {"runtime_path": f'"{program}"', "runtime_type": '"oci"'}
    tables: Settings = {("crio", "runtime", "runtimes", HANDLER): settings}
    there = next((file for file in runtime.files if file.path == _CRIO_FILE and file.text is not None), None)
    if there is None:
        return _done(name, FileEdit(_CRIO_FILE, None, whole_file(tables_body(tables))))
    edit = linked(there) if there.link else with_tables(_CRIO_FILE, there.text or "", tables)
    return _done(name, edit) if isinstance(edit, FileEdit) else refused(edit)


def _existing_handler(name: str, there: str, program: str, where: str) -> RuntimePlan:
    if there == program:
        return RuntimePlan(
            ChangeState.NOTHING, f"{name} has handler {HANDLER}, which runs {program}; {_CLASS}"
        )
    return refused(
        not_configured(
            f"handler {HANDLER} exists, and runs {there or 'the default program'}",
            where,
            "Tonnage does not change what it did not write",
            f"remove it, or --nvidia-runtime {there}" if there else "remove it",
        )
    )


def _done(name: str, edit: FileEdit) -> RuntimePlan:
    return RuntimePlan(ChangeState.CHANGE, f"{name} has no handler {HANDLER}; {_CLASS}", (edit,))


def _strange(program: str) -> RuntimeNotConfigured:
    return not_configured(
        f"{program[:200]} is not a plain absolute path",
        "--nvidia-runtime",
        remedy="name nvidia-container-runtime as the node sees it: /usr/bin/nvidia-container-runtime",
    )


def _containerd_part(files: ContainerdFiles) -> dict[str, object]:
    return _inside(files.cri(), "containerd")


def _program(files: ContainerdFiles) -> str | None:
    """What handler `nvidia` runs, empty if it does not say; None without such a handler."""
    runtimes = _inside(_containerd_part(files), "runtimes")
    if HANDLER not in runtimes:
        return None
    options = _inside(_inside(runtimes, HANDLER), "options")
    return str(options.get("BinaryName") or options.get("Runtime") or "")


def _change(files: ContainerdFiles, program: str) -> RuntimeFileChange:
    """The handler as the default one is, but for the program."""
    part = _containerd_part(files)
    default = _inside(_inside(part, "runtimes"), str(part.get("default_runtime_name") or "runc"))
    kind = default.get("runtime_type")
    kind = kind if isinstance(kind, str) and _PLAIN.fullmatch(kind) else _RUNC
    options = {"BinaryName": f'"{program}"'}
    systemd = _inside(default, "options").get("SystemdCgroup")
    if isinstance(systemd, bool):
        options["SystemdCgroup"] = "true" if systemd else "false"
    table = (*files.plugin, "containerd", "runtimes", HANDLER)
    tables: Settings = {table: {"runtime_type": f'"{kind}"'}, (*table, "options"): options}

    def edit(path: str, text: str) -> FileEdit | RuntimeNotConfigured:
        return with_tables(path, text, tables)

    return RuntimeFileChange(edit, tables_body(tables), lambda now: _program(now) == program, _BY_CDI)


def _inside(owner: dict[str, object], key: str) -> dict[str, object]:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}
