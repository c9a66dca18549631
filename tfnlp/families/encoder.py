"""What BERT and the encoders after it share as families."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import tensorflow as tf
from keras import Model

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.data import TokenizedCorpus, masked_positions
from tfnlp.data.texts import documents_of
from tfnlp.families.family import Loader, Measured
from tfnlp.families.fitting import WHOLE, Adaptation, Features, layers_of
from tfnlp.families.masked_text import MaskedText, masked_batches, masked_examples
from tfnlp.families.preparation import ExampleRecipe, Preparation
from tfnlp.families.sentences import string_vectors
from tfnlp.families.subwords import SubwordModel
from tfnlp.families.vocabularies import WORD_PIECES, Subwords
from tfnlp.hub import BertPreprocessorModule
from tfnlp.hub.modules.fill import best_tokens, check_head, masked_pieces, tokens_and_texts
from tfnlp.objectives import BertPretraining
from tfnlp.settings.encoders import EncoderSettings, MaskedEvaluation, MaskPrediction
from tfnlp.text import BertReader
from tfnlp.training import AdamW, Trainer

_PAIR_HEADS = ("next_sentence_logits", "sentence_order_logits")  # 0: the second text follows


class Encoder(SubwordModel):
    """BERT or an encoder after it: masked language models of which tasks take the vectors.

    Attributes:
        files: How others keep its checkpoints.
        second: What the second segment of a row is, see `tfnlp.data.SentencePairs`; None: rows are
            windows of sentences.
        mask: What stands for a masked word in texts.
        copied: Layers of the pretrainer whose weights go on, beside the encoder.
        task_hidden, task_drop_first: Of the layer before a task's linear one, see
            `tfnlp.models.bert_task`.
        plan_label: Of a pair of segments in a batch; "": none.
    """

    evaluation, prediction = MaskedEvaluation, MaskPrediction
    packs = True
    files: ClassVar[EncoderFiles]
    subwords: ClassVar[Subwords] = WORD_PIECES
    second: ClassVar[str | None] = None
    mask: ClassVar[str] = "[MASK]"
    copied: ClassVar[tuple[str, ...]] = ("masked_lm_head", "masked_lm_bias", "masked_lm_table")
    task_hidden: ClassVar[str | None] = None
    task_drop_first: ClassVar[bool] = True

    plan_label: ClassVar[str] = ""
    plan_options = ("predictions",)
    plan_flags = {"length": "--seq-length", "predictions": "--max-predictions"}

    # Pretraining.

    def start(self, settings: EncoderSettings, load: Loader) -> Pretrained | None:
        """Return the model to go on from, which must have a masked-LM head."""
        before = super().start(settings, load)
        heads = {} if before is None or before.pretrainer is None else before.pretrainer.output
        if before is not None and "mlm_logits" not in heads:
            raise ValueError(
                f"{settings.start} has no masked-LM head to go on with; give one that has"
            )
        return before

    def sizes_of(self, loaded: Pretrained) -> dict[str, Any]:
        return self.files.config_of(loaded.encoder)

    def heads(self, settings: Any, before: Pretrained | None, batches: Any) -> dict[str, Any]:
        """Return the arguments of the pretrainer: the masked-LM head of `before` goes on too."""
        return self.head_arguments(settings, before)

    def head_arguments(
        self, settings: Any, before: Pretrained | None, second: str | None = None
    ) -> dict[str, Any]:
        """Return the arguments of a pretrainer with a head `second`, unless `before` lacks it."""
        asked = {} if second is None else {"masked_lm": True, second: True}
        if before is None:
            return {**asked, "initializer_range": settings.initializer_range}
        if second is not None:
            asked[second] = f"{second}_logits" in before.pretrainer.output
        head = before.pretrainer.get_layer("masked_lm_head")
        if "masked_lm_table" in {layer.name for layer in before.pretrainer.layers}:
            asked["tied"] = False
        return {
            **asked,
            "activation": head.activation,
            "norm_epsilon": head.norm_epsilon,
            "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
        }

    def objective(self, model: Model, settings: Any) -> Any:
        return BertPretraining(model)

    def copy_weights(self, before: Pretrained, encoder: Model, pretrainer: Model) -> None:
        old = {weight.path: weight for weight in before.encoder.weights}
        for weight in encoder.weights:  # all but those of a pooler that is left out
            weight.assign(old[weight.path])
        for name in self.copied:
            if name in {layer.name for layer in pretrainer.layers}:
                weights = before.pretrainer.get_layer(name).get_weights()
                pretrainer.get_layer(name).set_weights(weights)

    def prepare(self, settings: Any, before: Pretrained | None, strategy: Any) -> Preparation:
        return MaskedText(self, settings, before)

    def examples(self, settings: Any) -> ExampleRecipe:
        return masked_examples(self, settings)

    # Use.

    def evaluate(self, loaded: Pretrained, settings: MaskedEvaluation) -> Measured:
        if loaded.pretrainer is None:
            raise ValueError(
                f"{loaded.path} has neither a masked-LM nor a next-sentence head to evaluate"
            )
        positions = loaded.config["max_positions"]
        length = settings.seq_length or min(128, positions)
        if length > positions:
            raise ValueError(
                f"`seq_length` {length} is longer than the model's {positions} positions"
            )
        documents = list(documents_of(settings.text, settings.layout))
        packed = self.was_packed(loaded)
        made = masked_batches(
            self.second,
            TokenizedCorpus.build(documents, loaded.tokenizer),
            loaded.tokenizer,
            batch_size=settings.batch_size,
            seq_length=length,
            max_predictions=masked_positions(length),
            seed=settings.seed,
            pack=packed,
        )
        model = self.packed_pretrainer(loaded) if packed else loaded.pretrainer
        trainer = Trainer(self.measured_objective(loaded, model), AdamW(), 1e-4)
        results = trainer.evaluate(made.evaluation_batches(settings.batches))
        return Measured(results, "\n".join(f"{n:28s}{value:.4f}" for n, value in results.items()))

    def measured_objective(self, loaded: Pretrained, model: Model) -> Any:
        return BertPretraining(model)

    def vectors(self, loaded: Pretrained) -> Callable[[list[str]], Any]:
        return string_vectors(loaded, BertPreprocessorModule, special=2)

    def check_prediction(self, settings: MaskPrediction) -> None:
        super().check_prediction(settings)
        if settings.pair is None:
            missing = [text for text in settings.text if self.mask not in text]
            if missing:
                raise ValueError(f"{missing[0]!r} has no {self.mask} to fill; write one")

    def predict(self, loaded: Pretrained, settings: MaskPrediction) -> list[Any]:
        """Return the guesses of each mask, or the probability that `pair` follows."""
        if settings.pair is not None:
            return [follows(loaded, text, settings.pair) for text in settings.text]
        return [fill_masks(loaded, text, settings.top) for text in settings.text]

    def lines(self, loaded: Pretrained, settings: MaskPrediction) -> Iterator[str]:
        for text in settings.text:
            (result,) = self.predict(loaded, settings.replace(text=[text]))
            if settings.pair is not None:
                yield f"{result:.3f}  {text} | {settings.pair}\n"
                continue
            for guesses in result:
                shown = "  ".join(f"{token} {probability:.3f}" for token, probability in guesses)
                yield f"{text}\n  {shown}\n"

    # Fine-tuning.

    def reader(self, loaded: Pretrained) -> BertReader:
        """Return the reader of `[CLS] A [SEP] B [SEP]`, with the tokenizer's special tokens."""
        return BertReader(loaded.tokenizer)

    def features(self, loaded: Pretrained, choice: str) -> Features:
        return layers_of(loaded, loaded.encoder, choice)

    def fine_tuned(
        self,
        loaded: Pretrained,
        spec: Any,
        head: dict[str, Any],
        outputs: dict[str, Any],
        dtype: str | None,
        adaptation: Adaptation = WHOLE,
        packed: bool = False,
    ) -> Model:
        """Return one linear layer on a whole encoder (Devlin et al. 2019, section 4)."""
        encoder, rate = loaded.encoder, head["dropout"]
        if not loaded.saved:
            changes = {"dropout": rate, "attention_dropout": rate, "dtype": dtype, "packed": packed}
            encoder = models.encoder_for_tasks(self.encoder, encoder, loaded.config, **changes)
            adaptation.apply(encoder)
        before = {"hidden": self.task_hidden, "drop_first": self.task_drop_first}
        return models.bert_task(encoder, spec.output, dropout=rate, **outputs, **before)

    # Planning.

    @property
    def plan_lengths(self) -> dict[str, int]:
        return dict.fromkeys(self.sizes, 128)

    def planned(self, sizes: dict[str, Any], preset: Any) -> Any:
        rates = {"dropout": preset.dropout, "attention_dropout": preset.dropout}
        encoder = self.encoder(**{**sizes, **rates, "dtype": preset.dtype})
        return BertPretraining(self.pretrainer(encoder))

    def planned_batch(self, preset: Any) -> dict[str, tuple]:
        predictions = preset.predictions or masked_positions(preset.length)
        tokens, masked = (preset.rows, preset.length), (preset.rows, predictions)
        labels = {self.plan_label: ((preset.rows,), "int32")} if self.plan_label else {}
        return {
            "input_word_ids": (tokens, "int32"),
            "input_mask": (tokens, "int32"),
            "input_type_ids": (tokens, "int32"),
            "masked_lm_positions": (masked, "int32"),
            "masked_lm_ids": (masked, "int32"),
            "masked_lm_weights": (masked, "float32"),
            **labels,
        }


def encode(
    loaded: Pretrained, text: str, pair: str | None = None
) -> tuple[dict[str, tf.Tensor], list[int]]:
    """Return texts as the encoder's inputs, int32 `[1, T]` each, and the positions of the masks."""
    tokenizer, limit = loaded.tokenizer, loaded.config["max_positions"]
    segments = [masked_pieces(tokenizer, tf.constant([text]))[0]]
    if pair is not None:
        segments.append(tokenizer.tokenize(tf.constant([pair])))
    reader = BertReader(tokenizer)
    special = reader.special_tokens(len(segments))
    length = special + sum(int(tf.size(segment.values)) for segment in segments)
    if length > limit:
        raise ValueError(f"text of {length} tokens, but the model reads {limit}; shorten it")
    packed = reader.pack(segments, length)
    inputs = {name: packed[name] for name in ("input_word_ids", "input_mask", "input_type_ids")}
    ids = inputs["input_word_ids"][0].numpy().tolist()
    return inputs, [i for i, token in enumerate(ids) if token == tokenizer.mask_id]


def fill_masks(loaded: Pretrained, text: str, top: int) -> list[list[tuple[str, float]]]:
    """Return for each mask of `text` a list of `(token, probability)`, most probable first."""
    inputs, positions = encode(loaded, text)
    if not positions:
        return []
    check_head(loaded.pretrainer)
    outputs = _pretrainer_outputs(loaded, inputs, positions)
    values, ids = best_tokens(outputs["mlm_logits"][0], loaded.tokenizer, top)  # [P, top]
    tokens, _ = tokens_and_texts(loaded.tokenizer, ids)
    return [
        [(token.decode("utf-8", "replace"), float(p)) for token, p in zip(*guesses, strict=True)]
        for guesses in zip(tokens.numpy(), values.numpy(), strict=True)
    ]


def follows(loaded: Pretrained, text: str, pair: str) -> float:
    """Return the probability that `pair` is the sentence after `text`."""
    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    head = next((name for name in _PAIR_HEADS if name in outputs), None)
    if head is None:
        raise ValueError("the model has no next-sentence head")
    inputs, _ = encode(loaded, text, pair)
    logits = _pretrainer_outputs(loaded, inputs, [0])[head]
    return float(tf.nn.softmax(logits)[0, 0])


def _pretrainer_outputs(
    loaded: Pretrained, inputs: dict[str, tf.Tensor], positions: list[int]
) -> dict[str, Any]:
    if "mlm_logits" in loaded.pretrainer.output:
        inputs = {**inputs, "masked_lm_positions": tf.constant([positions], "int32")}
    return loaded.pretrainer(inputs)
