"""Tokenizers of the sentencepiece library, as ALBERT has one."""
