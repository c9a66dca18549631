"""Training examples as sharded TFRecord files, written by Apache Beam."""
