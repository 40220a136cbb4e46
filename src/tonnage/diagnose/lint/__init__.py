"""What is wrong with documents before they are applied."""
