"""What pretended containers find in their volumes: maps, secrets, tokens; never a host's file."""
