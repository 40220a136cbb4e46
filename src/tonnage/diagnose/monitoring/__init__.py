"""What watches a fleet: rules, dashboards, scrape settings, targets, and the metrics of a cluster."""
