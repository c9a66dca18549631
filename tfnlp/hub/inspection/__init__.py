"""Reading what a SavedModel offers without loading it."""
