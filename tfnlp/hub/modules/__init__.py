"""The SavedModels of each family: what they take, return and carry."""
