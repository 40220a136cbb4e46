"""The loops that change the node's MIG layout step by step; `decide.node.mig` says which steps."""
