"""What runs on the GPUs now, by node, device and pod; and how a screen shows it. Pure."""
