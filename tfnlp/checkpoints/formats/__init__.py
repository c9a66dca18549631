"""Readers of file formats: each gives arrays by name, and knows no model."""
