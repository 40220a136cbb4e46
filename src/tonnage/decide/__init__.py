"""The thinking: pure functions from facts to plans and verdicts."""
