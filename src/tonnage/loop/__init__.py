"""What loops run on, over ports: informers, queues, Events, ticks, expectations; never a decision."""
