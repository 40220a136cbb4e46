"""Rules about pods and their templates, a module for each part of the spec; never a rule of a workload."""
