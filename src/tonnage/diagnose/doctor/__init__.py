"""What is wrong with a node, layer by layer: pure judgements over `model.node_facts`."""
