"""GPT's pretraining text: windows of a stream of tokens, of documents or prepared examples."""

import dataclasses
from typing import Any

from tfnlp.families.examples import check_same_vocabulary
from tfnlp.families.packing import check_pack
from tfnlp.families.preparation import (
    BPE_VOCABULARY,
    Preparation,
    Vocabulary,
    bpe_vocabulary,
    documents,
    tokenized_once,
    write_bpe_folder,
)
from tfnlp.families.starts import check_length, transformer_sizes
from tfnlp.families.token_text import TokenText, newline_id, open_token_text, read_token_text
from tfnlp.files import local_copy


@dataclasses.dataclass(frozen=True, eq=False)
class _Source:
    """Training batches and held-out text."""

    pair: tuple  # tokens and merges
    tokenizer: Any
    batches: Any  # `TokenWindows`, `PackedDocuments` or `WindowShards`
    valid: TokenText
    corpus: dict[str, Any]  # section of the run's configuration
    size: int  # tokens to train on
    documents: int
    tokens_per_word: float


def prepare(config: Any, before: Any, strategy: Any) -> Preparation:
    """Return what GPT's pretraining needs: windows of tokens, the loss of the next token."""
    from tfnlp.objectives import GPTPretraining
    from tfnlp.text import read_bpe

    check_pack(config)
    sizes = _sizes(config, before)
    source = (_from_examples if config.examples else _from_documents)(config, before)
    valid = source.valid
    window = min(config.seq_length, valid.tokens)
    held_out = _windows(config, valid, source.tokenizer, window=window)
    stride = -(-held_out.window // 2)

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        return (
            f"GPT with {pretrainer.count_params() / 1e6:.2f} M parameters on {source.size:,} "
            f"tokens of {source.documents:,} documents ({source.tokens_per_word:.2f} a word); "
            f"held out: {valid.tokens:,} tokens; {steps:,} updates"
        )

    return Preparation(
        batches=source.batches,
        held_out=held_out.evaluation_batches(config.evaluate_batches),
        vocabulary=Vocabulary(source.pair, read_bpe, write_bpe_folder, BPE_VOCABULARY),
        arguments={"vocab_size": source.tokenizer.vocab_size, **sizes},
        unrecorded_arguments={"packed": True} if config.pack else {},
        corpus=source.corpus,
        objective=lambda pretrainer: GPTPretraining(pretrainer, valid.tokens_per_word),
        describe=describe,
        measure=lambda trainer: trainer.evaluate(held_out.evaluation_batches(stride=stride)),
        line=lambda when, results: f"held out, {when}: {perplexities(results)}",
        first=before is not None,
        copy_weights=(
            None
            if before is None
            else lambda encoder, _: encoder.set_weights(before.encoder.get_weights())
        ),
    )


def _windows(config: Any, text: TokenText, tokenizer: Any, **arguments: Any) -> Any:
    """Return the rows of a text."""
    from tfnlp.data import PackedDocuments, TokenWindows

    arguments["batch_size"] = config.batch_size
    if config.pack:
        return PackedDocuments(text.stream, tokenizer.end_id, **arguments)
    return TokenWindows(text.stream, **arguments)


def perplexities(results: dict[str, float]) -> str:
    """Return the perplexities of an evaluation as text."""
    return (
        f"perplexity {results['perplexity']:.2f} a token, {results['word_perplexity']:.2f} a word"
    )


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    """Return the arguments of `gpt`, checked before any work is done."""
    from tfnlp import models
    from tfnlp.settings.gpt import SIZES

    rates = {"dropout": config.dropout, "attention_dropout": config.dropout}
    if before is not None:
        sizes = {n: v for n, v in before.config.items() if n not in ("vocab_size", "dtype")}
    else:
        sizes = transformer_sizes(config, getattr(models, SIZES[config.size]))
        sizes.pop("vocab_size", None)
        longest = max(sizes.get("max_positions", 512), config.seq_length)
        sizes["max_positions"] = config.max_positions or longest
        sizes["initializer_range"] = config.initializer_range
    check_length(config, sizes["max_positions"])
    return {**sizes, **rates}


def _from_documents(config: Any, before: Any) -> _Source:
    """Return the batches of `config.text`."""
    from tfnlp.data.corpus.arrays import int32_checksum
    from tfnlp.text import gpt_tokenizer

    train_documents, valid_documents = documents(config, paragraphs=True)
    if before is not None:
        pair = before.tokenizer.vocabulary, before.tokenizer.merges
    else:
        pair = bpe_vocabulary(
            config,
            lambda: ("\n".join(document) + "\n" for document in train_documents),
            config.bpe,
            train_documents,
        )
    tokenizer = gpt_tokenizer(pair)

    def tokenized(documents: Any) -> TokenText:
        return tokenized_once(
            documents,
            ["byte pairs", pair],
            lambda folder: read_token_text(documents, tokenizer, folder),
            open_token_text,
        )

    train, valid = tokenized(train_documents), tokenized(valid_documents)
    windows = _windows(config, train, tokenizer, window=config.seq_length, seed=config.seed)
    return _Source(
        pair=pair,
        tokenizer=tokenizer,
        batches=windows,
        valid=valid,
        corpus={"tokens": train.tokens, "crc32": int32_checksum(train.stream)},
        size=train.tokens,
        documents=train.documents,
        tokens_per_word=train.tokens_per_word,
    )


def _from_examples(config: Any, before: Any) -> _Source:
    """Return the batches of what `tfnlp examples` wrote."""
    from tfnlp.data import WindowShards, token_stream
    from tfnlp.text import gpt_tokenizer, read_bpe

    with local_copy(f"{config.examples}/{BPE_VOCABULARY}") as path:
        pair = read_bpe(path)
    if before is not None:
        theirs = before.tokenizer
        check_same_vocabulary(config, pair, (theirs.vocabulary, theirs.merges))
    tokenizer = gpt_tokenizer(pair)
    shards = WindowShards(config.examples, batch_size=config.batch_size)
    held_out = shards.held_out()
    stream = token_stream(held_out, newline_id(tokenizer), tokenizer.end_id)
    train, valid = shards.counts["train"], shards.counts["held_out"]
    size = train["tokens"] + train["sentences"]  # a line's end is a token
    return _Source(
        pair=pair,
        tokenizer=tokenizer,
        batches=shards,
        valid=TokenText(stream, held_out.num_documents, valid["lines"], valid["words"]),
        corpus={"tokens": size, "examples": shards.checksum},
        size=size,
        documents=train["documents"],
        tokens_per_word=size / (train["words"] + train["lines"]),
    )
