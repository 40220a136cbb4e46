"""What runs inside pretended containers: a shell, small commands, nvidia-smi; never the machine's own."""
