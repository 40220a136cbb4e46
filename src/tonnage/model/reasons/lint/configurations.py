"""What lint has against configurations of GPUs: of the device plugin, of MIG, of NVIDIA's operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import FactUnit
from tonnage.model.reasons.lint.lint_rule import (
    DCGM_EXPORTER,
    DEVICE_PLUGIN,
    GPU_OPERATOR,
    KUBELET,
    MIG_PARTED,
    LintRule,
)
from tonnage.model.reasons.reason import ManifestFault, Reason, reason
from tonnage.model.severity import Severity


@reason
class ConfigurationReason(ManifestFault):
    """What is wrong in a configuration. Its subject, an object or nothing, and the field's path are filled in
    by lint with the place."""

    layer: Layer = Layer.PLUGIN
    subject: str = ""
    field: str | None = None


class GpuConfigInvalid(ConfigurationReason):
    """A device-plugin configuration that the agent refuses, also in a ConfigMap."""

    code: ClassVar[str] = "gpu-config-invalid"
    advice: ClassVar[str] = "[the fields](device-plugin-config.md)"
    rule: ClassVar[LintRule] = LintRule("A device-plugin configuration that is refused.", DEVICE_PLUGIN)


@reason
class SharingWithoutRename(ConfigurationReason):
    """Shared GPUs under the name of whole ones."""

    code: ClassVar[str] = "sharing-without-rename"
    advice: ClassVar[str] = "`renameByDefault: true`"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("Shared GPUs under the name of whole ones.", DEVICE_PLUGIN)
    strategy: str
    resource: str


class MigConfigInvalid(ConfigurationReason):
    """A mig-parted configuration that is refused."""

    code: ClassVar[str] = "mig-config-invalid"
    advice: ClassVar[str] = "do what the finding says"
    rule: ClassVar[LintRule] = LintRule("A MIG configuration that mig-parted refuses.", MIG_PARTED)


@reason
class MigLayoutImpossible(ConfigurationReason):
    """More MIG devices than a GPU has slices for, or of GPUs of different models at once: of a text, by lint.
    `mig-layout-too-large` is of a GPU that is there."""

    code: ClassVar[str] = "mig-layout-impossible"
    advice: ClassVar[str] = "ask for fewer or smaller ones"
    rule: ClassVar[LintRule] = LintRule("More MIG devices than a GPU has room for.", MIG_PARTED)
    profiles: Annotated[Mapping[str, int], FactUnit("MIG devices of each profile")]
    boards: tuple[str, ...]


@reason
class MigProfileUnknown(ConfigurationReason):
    """A MIG profile that no known GPU has, or not those that the filter selects: of a text, by lint.
    `mig-profile-not-offered` is of a GPU that is there."""

    code: ClassVar[str] = "mig-profile-unknown"
    advice: ClassVar[str] = "use the nearest, which lint names"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A MIG profile that no known GPU has.", MIG_PARTED)
    profile: str
    meant: str | None = None


class ClusterPolicyDeprecated(ConfigurationReason):
    """A ClusterPolicy field that no longer has an effect."""

    code: ClassVar[str] = "cluster-policy-deprecated"
    advice: ClassVar[str] = "remove it"
    severity: ClassVar[Severity] = Severity.NOTE
    rule: ClassVar[LintRule] = LintRule("A ClusterPolicy field without effect.", GPU_OPERATOR)


@reason
class ClusterPolicyIncomplete(ConfigurationReason):
    """A section is missing without which the API server refuses a ClusterPolicy."""

    code: ClassVar[str] = "cluster-policy-incomplete"
    advice: ClassVar[str] = "write it, `{}` for its defaults"
    rule: ClassVar[LintRule] = LintRule("A ClusterPolicy without a required section.", GPU_OPERATOR)
    missing: tuple[str, ...]


@reason
class ClusterPolicyKeyUnknown(ConfigurationReason):
    """A field that ClusterPolicy does not have, or Helm's name for one."""

    code: ClassVar[str] = "cluster-policy-key-unknown"
    advice: ClassVar[str] = "use the nearest name, which lint gives"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A field that ClusterPolicy does not have.", GPU_OPERATOR)
    meant: str | None = None


class ClusterPolicyValueInvalid(ConfigurationReason):
    """A value of the wrong type, none of those allowed, or one that contradicts another."""

    code: ClassVar[str] = "cluster-policy-value-invalid"
    advice: ClassVar[str] = "do what the finding says"
    rule: ClassVar[LintRule] = LintRule("A value that ClusterPolicy does not take.", GPU_OPERATOR)


class CounterLineInvalid(ConfigurationReason):
    """A line of a CSV of counters that is none: an unknown field or type, another number of columns, a field
    twice."""

    code: ClassVar[str] = "counter-line-invalid"
    advice: ClassVar[str] = "[the fields](exporter-metrics.md)"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A line of a CSV of counters that is refused.", DCGM_EXPORTER)


class CounterNotExported(ConfigurationReason):
    """A field of DCGM's that Tonnage does not export: of what is no GPU, or of DCGM's own."""

    code: ClassVar[str] = "counter-not-exported"
    advice: ClassVar[str] = "what the finding says is there instead"
    severity: ClassVar[Severity] = Severity.NOTE
    rule: ClassVar[LintRule] = LintRule("A field of DCGM's that Tonnage does not export.", DCGM_EXPORTER)


@reason
class KubeletConfigInvalid(ConfigurationReason):
    """Policies or reservations of a KubeletConfiguration that kubelet refuses, or that align too little."""

    code: ClassVar[str] = "kubelet-config-invalid"
    advice: ClassVar[str] = "do what the finding says"
    layer: Layer = Layer.KUBELET
    rule: ClassVar[LintRule] = LintRule("A kubelet's policy or reservation that is refused.", KUBELET)


REASONS: Final[tuple[type[Reason], ...]] = (
    GpuConfigInvalid,
    SharingWithoutRename,
    MigConfigInvalid,
    MigLayoutImpossible,
    MigProfileUnknown,
    ClusterPolicyDeprecated,
    ClusterPolicyIncomplete,
    ClusterPolicyKeyUnknown,
    ClusterPolicyValueInvalid,
    CounterLineInvalid,
    CounterNotExported,
    KubeletConfigInvalid,
)
