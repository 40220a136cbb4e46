"""MPS on the real node: its control program, its folders and shared memory, never who may share."""
