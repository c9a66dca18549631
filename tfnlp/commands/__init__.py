"""The sub-commands: each module has `add_arguments(parser)` and `run(args)`.

They import TensorFlow inside `run`, so that `tfnlp --help` answers at once.
"""
