"""Rules of explain, a folder a subject, one file each: asked in the order of `order`, none knows another."""
