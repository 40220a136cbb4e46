"""What loops run on, over ports: informers, queues, Events, beats, expectations; never a decision."""
