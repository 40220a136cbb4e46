"""The exporter in the agent: it samples devices at an interval and shows a page of what they read."""
