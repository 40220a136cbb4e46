"""What is wrong with a node, layer by layer, judged over `model.node_facts`; never gathered here."""
