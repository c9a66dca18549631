"""BERT's tokenizer inside the TensorFlow graph, and its vocabularies."""
