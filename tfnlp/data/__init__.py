"""Files or TFDS data sets to `tf.data` batches."""

from tfnlp.data.bert_pairs import BertPairs
from tfnlp.data.corpus import read_documents, split_documents
from tfnlp.data.sentences import looks_like_sentences, split_sentences
from tfnlp.data.tokens import TokenizedCorpus

__all__ = [
    "BertPairs",
    "TokenizedCorpus",
    "looks_like_sentences",
    "read_documents",
    "split_documents",
    "split_sentences",
]
