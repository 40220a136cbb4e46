"""DaemonSets: which nodes run their pods, and how they are renewed; never more than one a node."""
