"""Runs: load, pretrain, fine-tune, evaluate, predict; the functions of `import tfnlp`.

    RUN/config.json   what decides the numbers of the run; the same settings resume it
    RUN/checkpoints   see `tfnlp.training.checkpoints`
    RUN/curve.png     the training curve

The modules import TensorFlow inside their functions, so that `import tfnlp` stays quick.
"""
