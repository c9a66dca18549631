"""Fine-tuned models of Hugging Face: the heads of tasks, in both directions."""
