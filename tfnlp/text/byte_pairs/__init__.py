"""Byte-pair encoding: vocabulary files, merging and the base of the tokenizers that use it."""
