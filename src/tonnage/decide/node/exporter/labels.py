"""Labels of a row in dcgm-exporter's order: what the entity is, then what is sorted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tonnage.model.node.telemetry import (
    Entity,
    GpuEntity,
    HoldingContainer,
    InstanceEntity,
    LinkEntity,
    PodIdentity,
)

Labels = Mapping[str, str]
_NO_LABELS: Final[Labels] = MappingProxyType({})
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """Flags of dcgm-exporter that change labels.

    `hostname` is empty for none, `hostname_label` its name: `Hostname` in releases up to 4.5.
    """

    hostname: str = ""
    hostname_label: str = "hostname"
    old_namespace: bool = False
    replace_blanks: bool = False
    pod_uid: bool = False


@dataclass(frozen=True, slots=True)
class RowLabels:
    """Labels of a row: `fixed` as they stand, then `sorted_labels`, then `attributes` sorted."""

    fixed: tuple[tuple[str, str], ...]
    sorted_labels: Mapping[str, str]
    attributes: Mapping[str, str]
    _texts: dict[tuple[object, ...], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was written before, by what was added: most families of a page have the same labels."""

    def text(self, labels: Labels = _NO_LABELS, attributes: Labels = _NO_LABELS) -> str:
        """What stands in braces, with those added; values are escaped, which dcgm-exporter leaves out."""
        added = (*labels.items(), None, *attributes.items())
        text = self._texts.get(added)
        if text is None:
            text = self._texts[added] = self._written(labels, attributes)
        return text

    def _written(self, labels: Labels, attributes: Labels) -> str:
        pairs = (
            *self.fixed,
            *sorted({**self.sorted_labels, **labels}.items()),
            *sorted({**self.attributes, **attributes}.items()),
        )
        return ",".join([f'{name}="{escaped(value)}"' for name, value in pairs])


def escaped(value: str) -> str:
    """A label's value as it stands between quotes."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.translate(_ESCAPED)
    return value


def entity_labels(entity: Entity, options: LabelOptions) -> tuple[tuple[str, str], ...]:
    """The fixed labels of an entity, in order."""
    host = ((options.hostname_label, options.hostname),) if options.hostname else ()
    match entity:
        case GpuEntity():
            return (*_gpu_labels(entity, options), *host)
        case InstanceEntity():
            instance = (("GPU_I_PROFILE", entity.profile), ("GPU_I_ID", str(entity.gpu_instance)))
            return (*_gpu_labels(entity.gpu, options), *instance, *host)
        case LinkEntity():
            gpu = entity.gpu
            return (
                ("nvlink", str(entity.link)),
                ("gpu", str(gpu.index)),
                ("gpu_uuid", gpu.uuid),
                ("pci_bus_id", gpu.pci_bus_id),
                ("device", gpu.device_name),
                ("model_name", gpu.model),
                *host,
            )
        case _:
            link = () if entity.link is None else (("nvlink", str(entity.link)),)
            return (*link, ("nvswitch", f"nvswitch{entity.switch}"), *host)


def _gpu_labels(gpu: GpuEntity, options: LabelOptions) -> tuple[tuple[str, str], ...]:
    return (
        ("gpu", str(gpu.index)),
        ("uuid" if options.old_namespace else "UUID", gpu.uuid),
        ("pci_bus_id", gpu.pci_bus_id),
        ("device", gpu.device_name),
        ("modelName", "-".join(gpu.model.split()) if options.replace_blanks else gpu.model),
    )


def holder_attributes(holder: HoldingContainer, pod: PodIdentity, options: LabelOptions) -> Labels:
    """Attributes that name a holder; an empty container and no replica have none, an unknown uid is empty."""
    names = HOLDER_NAMES[options.old_namespace]
    attributes = dict(zip(names, (holder.namespace, holder.pod, holder.container), strict=True))
    if not holder.container:
        del attributes[names[2]]
    if holder.replica:
        attributes["vgpu"] = holder.replica
    if options.pod_uid:
        attributes["pod_uid"] = pod.uid
    return attributes


HOLDER_NAMES: Final = (
    ("namespace", "pod", "container"),
    ("pod_namespace", "pod_name", "container_name"),
)
"""What names a holder, by whether the old names are wanted."""


def pod_label_names(labels: Labels, reserved: Iterable[str]) -> Labels:
    """A pod's labels under names that Prometheus takes, without those that are `reserved` for other labels.

    dcgm-exporter lets a label that is called as a fixed one stand twice, and a name begin with a digit.

    >>> pod_label_names({"app.kubernetes.io/name": "vllm", "gpu": "true", "3d": "x"}, ["gpu"])
    {'_3d': 'x', 'app_kubernetes_io_name': 'vllm'}
    """
    names = frozenset(reserved)
    renamed = ((_label_name(name), value) for name, value in sorted(labels.items()))
    return {name: value for name, value in renamed if name not in names}


def _label_name(name: str) -> str:
    cleaned = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"_{cleaned}" if cleaned[:1].isdigit() else cleaned
