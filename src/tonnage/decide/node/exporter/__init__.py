"""What a page of device metrics says: rows in dcgm-exporter's names and order, and whose each device is."""
