"""The interface of the models that write one token at a time."""

from typing import Protocol

from tfnlp.layers.types import Tensor


class Decoder(Protocol):
    """A model that gives the logits of the next token, as `generate` and `beam_search` use it.

    `GPTDecoder`, `Seq2SeqDecoder` and `TransformerDecoder` have this interface. The prompt of an
    encoder-decoder is the source.

    Attributes:
        vocab_size: tokens V that the logits are of.

    A decoder may have an int `constant_parts`: how many of the last parts of its cache depend on
    the prompt alone.
    """

    vocab_size: int

    def prefill(self, ids: Tensor, mask: Tensor, size: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read prompts.

        Args:
            ids: int32 `[B, P]`.
            mask: bool `[B, P]`, False for padding.
            size: P and the number of tokens that will follow.

        Returns:
            logits of the next token, float32 `[B, V]`; the cache, a tuple of tensors `[B, ...]`.
        """
        ...

    def step(
        self, tokens: Tensor, index: Tensor, mask: Tensor, cache: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read one more token.

        Args:
            tokens: int32 `[B]`.
            index: int32 scalar, P and the number of tokens that were read after the prompt.
            mask: bool `[B, P]`, of the prompt.
            cache: from the call before.

        Returns:
            as `prefill`.
        """
        ...
