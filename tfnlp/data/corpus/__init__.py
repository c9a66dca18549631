"""Text to corpora: files, TFDS data sets and Python objects to documents and token ids."""
