"""Batches for pretraining: sentence pairs, windows, n-grams and blocks of text."""
