"""Strings to ids inside the TensorFlow graph, and what the models do with the ids."""

from tfnlp.text.bpe_files import read_bpe, write_bpe
from tfnlp.text.bpe_training import train_bpe
from tfnlp.text.characters import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    MAX_CHARACTERS,
    NUM_CHARACTERS,
    UNKNOWN,
    character_ids,
)
from tfnlp.text.gpt.gpt2_tokenizer import GPT2Tokenizer
from tfnlp.text.gpt.tokenizer import GPTTokenizer, gpt_tokenizer
from tfnlp.text.masking import mask_tokens
from tfnlp.text.packing import pack_segments
from tfnlp.text.subwords import Subwords, subword_rows, subword_rows_in_graph
from tfnlp.text.task_readers import BertReader, GPTReader, WordReader
from tfnlp.text.vocabulary import (
    SPECIAL_TOKENS,
    read_vocabulary,
    train_wordpiece,
    write_vocabulary,
)
from tfnlp.text.word_index import WordIndex
from tfnlp.text.word_vectors import WordVectors
from tfnlp.text.wordpiece import WordPieceTokenizer
from tfnlp.text.words import SPECIAL_WORDS, read_words, split_words, train_words, write_words

__all__ = [
    "BEGIN_OF_SENTENCE",
    "BertReader",
    "END_OF_SENTENCE",
    "GPT2Tokenizer",
    "GPTReader",
    "GPTTokenizer",
    "MAX_CHARACTERS",
    "NUM_CHARACTERS",
    "SPECIAL_TOKENS",
    "SPECIAL_WORDS",
    "Subwords",
    "UNKNOWN",
    "WordIndex",
    "WordPieceTokenizer",
    "WordReader",
    "WordVectors",
    "character_ids",
    "gpt_tokenizer",
    "mask_tokens",
    "pack_segments",
    "read_bpe",
    "read_vocabulary",
    "read_words",
    "split_words",
    "subword_rows",
    "subword_rows_in_graph",
    "train_bpe",
    "train_wordpiece",
    "train_words",
    "write_bpe",
    "write_vocabulary",
    "write_words",
]
