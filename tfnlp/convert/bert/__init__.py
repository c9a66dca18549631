"""BERT checkpoints of Google and Hugging Face."""
