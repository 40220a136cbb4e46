"""Who asks: tokens, certificates, and those who act as another."""
