"""Why a workload has not the pods that it should have; a single pod is explained beside it, never here."""
