"""What loops run on, over ports: informers, queues, Events, expectations, ownership; never a decision."""
