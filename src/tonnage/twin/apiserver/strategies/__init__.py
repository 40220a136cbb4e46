"""What the server sets or keeps of an object at birth and at each change, by kind; never a refusal."""
