"""Rules about pods and templates of pods, a module for each part of their spec; never a rule of a workload."""
