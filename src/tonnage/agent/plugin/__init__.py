"""The device plugin that serves kubelet; what it advertises is never decided here."""
