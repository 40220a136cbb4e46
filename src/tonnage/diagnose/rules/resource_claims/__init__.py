"""Rules about resource claims: one file each; none knows another."""
