"""Labelled examples: files and tables to examples, and examples to batches."""
