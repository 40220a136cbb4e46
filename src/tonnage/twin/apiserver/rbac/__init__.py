"""Who may do what: rules, roles and bindings, nodes, reviews."""
