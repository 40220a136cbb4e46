"""Doctor's layers of containers: runtime, toolkit, CDI, images, GPUs in them; judged, never read."""
