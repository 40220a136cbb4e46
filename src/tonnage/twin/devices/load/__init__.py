"""What pretended devices read while pretended workloads run on them. All but the file is pure."""
