"""Doctor's layers of a machine: hardware, driver, its libraries and device nodes; judged, never read."""
