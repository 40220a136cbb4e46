"""What the agent counts and shows of itself: counters, probes, exposition, and never a decision."""
