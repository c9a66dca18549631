"""Files, TFDS data sets and Python objects to `tf.data` batches."""

from tfnlp.data.corpus.cooccurrence import CooccurrenceBatches, Cooccurrences
from tfnlp.data.corpus.corpora import (
    LanguageModelCorpus,
    TokenizedCorpus,
    WordCorpus,
    frequent_words,
)
from tfnlp.data.corpus.documents import read_documents, split_documents
from tfnlp.data.corpus.parallel_text import ParallelText, read_parallel, translation_batches
from tfnlp.data.corpus.sentences import looks_like_sentences, looks_like_words, split_sentences
from tfnlp.data.labelled.batches import (
    PackedTaskBatches,
    TaskBatches,
    bucket_lengths,
    token_batches,
)
from tfnlp.data.labelled.examples import TaskExample
from tfnlp.data.labelled.forms import RowForm
from tfnlp.data.labelled.questions import Question
from tfnlp.data.labelled.rows import TaskData
from tfnlp.data.labelled.tag_rows import RoleSentence
from tfnlp.data.labelled.tag_schemes import TaggedSentence
from tfnlp.data.pretraining.lm_batches import LanguageModelWindows, Ngrams
from tfnlp.data.pretraining.masked_rows import masked_positions
from tfnlp.data.pretraining.masked_windows import MaskedDocuments, MaskedWindows
from tfnlp.data.pretraining.sentence_pairs import PackedPairs, SentencePairs
from tfnlp.data.pretraining.token_stream import PackedDocuments, TokenWindows, token_stream
from tfnlp.data.pretraining.word_blocks import WordBlocks
from tfnlp.data.rows import rows_of
from tfnlp.data.shards.reading import MaskedWindowShards, PairShards, WindowShards
from tfnlp.data.texts import documents_of, texts_of
from tfnlp.text.word_vectors import read_analogies, read_similarities

__all__ = [
    "CooccurrenceBatches",
    "Cooccurrences",
    "LanguageModelCorpus",
    "LanguageModelWindows",
    "MaskedDocuments",
    "MaskedWindowShards",
    "MaskedWindows",
    "Ngrams",
    "PackedDocuments",
    "PackedPairs",
    "PackedTaskBatches",
    "PairShards",
    "ParallelText",
    "Question",
    "SentencePairs",
    "RoleSentence",
    "RowForm",
    "TaggedSentence",
    "TaskBatches",
    "TaskData",
    "TaskExample",
    "TokenWindows",
    "TokenizedCorpus",
    "WindowShards",
    "WordBlocks",
    "WordCorpus",
    "bucket_lengths",
    "documents_of",
    "frequent_words",
    "looks_like_sentences",
    "looks_like_words",
    "masked_positions",
    "read_analogies",
    "read_documents",
    "read_parallel",
    "read_similarities",
    "rows_of",
    "split_documents",
    "split_sentences",
    "texts_of",
    "token_batches",
    "token_stream",
    "translation_batches",
]
