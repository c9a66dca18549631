"""The two engines of a `Trainer`: what runs its steps under each backend of Keras."""
