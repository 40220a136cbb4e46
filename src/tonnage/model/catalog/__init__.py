"""What is known about devices in general: data, each row with its source, and never a decision."""
