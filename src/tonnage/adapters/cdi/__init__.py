"""CDI specs and device nodes on the host's disk: read and written here, and never made up here."""
