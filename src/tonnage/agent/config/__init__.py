"""Which device-plugin configuration holds on the node, and never what it means for devices."""
