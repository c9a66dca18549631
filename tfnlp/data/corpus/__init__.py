"""Reading text: files and TFDS data sets to documents, sentences and token ids."""
