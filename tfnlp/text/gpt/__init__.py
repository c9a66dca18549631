"""The tokenizers of GPT and GPT-2 inside the TensorFlow graph."""
