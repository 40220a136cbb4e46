"""`tonnage lab`: runs the steps of a lab and checks what they show, never anything else."""
