"""Rules about nodes' devices and what pods ask of them: one file each; none knows another."""
