"""Rules of the API groups apps, batch and policy; what templates say of pods is in `pods`, never here."""
