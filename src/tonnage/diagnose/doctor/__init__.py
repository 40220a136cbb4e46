"""What is wrong with a node, layer by layer, judged over `model.node.facts`; never gathered here."""
