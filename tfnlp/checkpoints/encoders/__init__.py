"""One reader and one writer of encoder checkpoints; a family describes its files in a table."""
