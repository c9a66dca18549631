"""Runs: load, pretrain, fine-tune, evaluate, predict; the functions of `import tfnlp`.

    RUN/config.json   what decides the numbers of the run; the same settings resume it
    RUN/checkpoints   see `tfnlp.training.checkpoints`
    RUN/page.html     curves, measures and settings, for a browser

The modules import TensorFlow inside their functions, so that `import tfnlp` stays quick.
"""
