"""Whole words: vocabularies, vectors, character n-grams and places in a text."""
