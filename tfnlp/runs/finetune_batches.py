"""Batches of a fine-tuning: padded, of about as many tokens, or of packed rows."""

from typing import Any

from tfnlp.runs.finetune_config import FinetuneConfig


def training_batches(
    config: FinetuneConfig,
    strategy: Any,
    model: Any,
    train: Any,
    examples: list[Any],
    settings: dict[str, Any],
    seed: int,
) -> Any:
    """Return the batches that a run learns from.

    Args:
        config: Of the fine-tuning.
        strategy: The devices.
        model: A `tfnlp.hub.TaskModel`.
        train: `examples` as the model reads them.
        examples: Those to learn from.
        settings: The numbers of the training.
        seed: Of their order.
    """
    import tensorflow as tf

    from tfnlp.data.labelled.batches import bucket_lengths
    from tfnlp.training import is_compiled

    # A TPU's programs have fixed shapes.
    fixed = config.no_buckets or isinstance(strategy, tf.distribute.TPUStrategy)
    compiled = is_compiled(strategy, config.jit)
    lengths = bucket_lengths(train.encoded.sizes) if compiled else None  # few programs
    parts = strategy.num_replicas_in_sync * settings["accumulation"]
    if model.packed is not None:
        return _packed_batches(model, train, examples, settings, parts, seed)
    rows, options = settings["batch_size"], {"seed": seed, "pad_all": fixed}
    if settings.get("batch_tokens") is not None:
        rows, options["batch_tokens"] = parts, settings["batch_tokens"]
    return model.batches(train, rows, examples, lengths, **options)


def _packed_batches(
    model: Any, train: Any, examples: list[Any], settings: dict[str, Any], parts: int, seed: int
) -> Any:
    """Return batches of rows with several examples, of a multiple of `parts` rows."""
    tokens, rows = settings.get("batch_tokens"), {"examples_per_batch": settings["batch_size"]}
    if tokens is not None:
        count = tokens // (model.spec.max_length * parts)
        parts, rows = max(1, count) * parts, {}
    return model.packed_batches(train, examples, batch_size=parts, seed=seed, **rows)


def evaluation_batches(strategy: Any, model: Any, dev: Any, settings: dict[str, Any]) -> Any:
    """Return the batches that a run is measured on, of a multiple of the replicas.

    Each step is traced for two lengths or more, so a set of one length pads less than that.
    """
    replicas = strategy.num_replicas_in_sync
    return model.batches(dev, -(-settings["batch_size"] // replicas) * replicas)


def shown_size(settings: dict[str, Any], batches: Any) -> str:
    """Return the size of a batch as text."""
    if "pack" in settings:
        return f"{batches.batch_size} rows of {batches.length} tokens"
    if "batch_tokens" in settings:
        return f"{settings['batch_tokens']:,} tokens"
    return str(settings["batch_size"])
