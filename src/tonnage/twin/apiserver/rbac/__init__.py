"""Who may do what: roles, bindings, nodes and reviews; never who somebody is."""
