"""GPT and GPT-2 checkpoints of OpenAI and Hugging Face."""
