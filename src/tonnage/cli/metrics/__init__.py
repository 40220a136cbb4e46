"""`tonnage metrics`: what Prometheus needs beside the pages of the agents."""
