"""Loading SavedModels: from folders, archives and addresses, as Keras layers and as encoders."""
