"""Which of several devices are best for a container, by their links; never whether it gets any."""
