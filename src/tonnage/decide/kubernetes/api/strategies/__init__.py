"""What the server sets, keeps and drops when an object is made or changed, by kind; never a refusal."""
