"""Taking nodes over from NVIDIA's operator, and giving them back."""
