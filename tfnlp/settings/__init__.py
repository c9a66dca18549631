"""Options of families, tasks and commands: a dataclass each; needs neither TensorFlow nor Keras."""
