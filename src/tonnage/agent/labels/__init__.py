"""The loops that label the node; which labels it gets is never decided here."""
