"""Writing SavedModels: checks, traces, and an export that appears whole or not at all."""
