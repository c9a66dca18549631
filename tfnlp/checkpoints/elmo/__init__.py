"""ELMo checkpoints of bilm-tf, which AllenNLP reads too."""
