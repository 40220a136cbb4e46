"""Disruption budgets: what may be evicted now, and never the eviction."""
