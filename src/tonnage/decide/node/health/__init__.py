"""Which devices are healthy, out of events and readings; no device is ever asked here."""
