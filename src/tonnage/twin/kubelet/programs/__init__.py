"""What runs inside pretended containers."""
