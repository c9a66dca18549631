"""A page about a fine-tuned model: measures, charts and its errors."""
