"""Strings to ids inside the TensorFlow graph; packing, masking and training of vocabularies."""

from tfnlp.text.byte_pair_files import read_bpe, write_bpe
from tfnlp.text.characters import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    MAX_CHARACTERS,
    NUM_CHARACTERS,
    UNKNOWN,
    character_ids,
)
from tfnlp.text.gpt_tokenizers import (
    ROBERTA_TOKENS,
    GPT2Tokenizer,
    GPTTokenizer,
    RobertaTokenizer,
    gpt_tokenizer,
)
from tfnlp.text.masking import mask_tokens
from tfnlp.text.packing import pack_segments
from tfnlp.text.pipeline import PipelineTokenizer
from tfnlp.text.sentencepiece import (
    SentencePieceTokenizer,
    read_model,
    train_sentencepiece,
    write_model,
)
from tfnlp.text.subwords import Subwords, subword_rows, subword_rows_in_graph
from tfnlp.text.task_readers import BertReader, GPTReader, WordReader
from tfnlp.text.tokenizer_files import tokenizer_candidates
from tfnlp.text.vocabulary_training import train_bpe, train_roberta_bpe, train_wordpiece
from tfnlp.text.word_vectors import WordVectors, answer_analogies, rate_pairs
from tfnlp.text.wordpiece import (
    SPECIAL_TOKENS,
    WordPieceTokenizer,
    read_vocabulary,
    write_vocabulary,
)
from tfnlp.text.words import (
    SPECIAL_WORDS,
    WordIndex,
    read_words,
    split_words,
    train_words,
    write_words,
)

__all__ = [
    "SentencePieceTokenizer",
    "answer_analogies",
    "rate_pairs",
    "read_model",
    "train_sentencepiece",
    "write_model",
    "BEGIN_OF_SENTENCE",
    "BertReader",
    "END_OF_SENTENCE",
    "GPT2Tokenizer",
    "GPTReader",
    "GPTTokenizer",
    "MAX_CHARACTERS",
    "NUM_CHARACTERS",
    "PipelineTokenizer",
    "ROBERTA_TOKENS",
    "RobertaTokenizer",
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
    "tokenizer_candidates",
    "train_bpe",
    "train_roberta_bpe",
    "train_wordpiece",
    "train_words",
    "write_bpe",
    "write_vocabulary",
    "write_words",
]
