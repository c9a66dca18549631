"""tfnlp: from text to pretrained language models to SavedModels that anyone can fine-tune.

The rooms (`tfnlp.layers`, `tfnlp.models`, `tfnlp.text`, `tfnlp.data`, `tfnlp.tasks`,
`tfnlp.training`, `tfnlp.hub`, `tfnlp.convert`) are imported one by one, so that
`import tfnlp` itself costs nothing.
"""

__version__ = "0.1.0"
