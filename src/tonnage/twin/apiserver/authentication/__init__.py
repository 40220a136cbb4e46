"""Who asks: tokens, certificates and impersonation; never what they may do."""
