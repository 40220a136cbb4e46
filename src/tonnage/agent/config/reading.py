"""Where the node's configurations are, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tonnage.decide.node.choose_config import Wishes
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.plugin_settings import LabelPlace, Override


@dataclass(frozen=True, slots=True)
class Reading:
    """Where configurations are, and how they are read.

    `overrides` win over every text; `lenient` reads it as NVIDIA's plugin does. `labels` is where labels are
    published, whatever a text says. `program` identifies the program that reads.
    """

    wishes: Wishes
    overrides: tuple[Override, ...] = ()
    lenient: bool = False
    labels: str = LabelPlace.NONE
    program: str = ""

    def parsed(self, text: str, source: str) -> PluginConfig:
        """What the text decides. Raises ConfigError. Its reader is loaded only if needed: start-up counts."""
        if not text and not self.overrides:
            return PluginConfig()
        from tonnage.documents.device_plugin.config import parse_device_plugin_config

        read = parse_device_plugin_config(text, source=source, overrides=self.overrides, lenient=self.lenient)
        meant = LabelPlace.OBJECT if read.features.use_api else LabelPlace.FILE
        if read.features.use_api is None or self.labels in (LabelPlace.NONE, meant):
            return read
        remark = f"{source} flags.useNodeFeatureAPI: ignored, labels are published as --labels {self.labels}"
        return replace(read, remarks=(*read.remarks, remark))
