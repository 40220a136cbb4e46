"""What is wrong with documents before they are applied: findings and fixes, never a file written."""
