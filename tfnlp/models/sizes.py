"""The check of a Transformer's sizes."""

from tfnlp.layers.base import check_positive


def check_transformer(
    num_layers: int,
    hidden_size: int,
    num_heads: int,
    seq_length: int | None = None,
    max_positions: int | None = None,
) -> None:
    """Raise a ValueError if the sizes of a Transformer do not fit together."""
    check_positive(num_layers=num_layers, seq_length=seq_length)
    if num_heads < 1 or hidden_size % num_heads:
        raise ValueError(f"hidden_size={hidden_size} is not a multiple of num_heads={num_heads}")
    if seq_length is not None and max_positions is not None and seq_length > max_positions:
        raise ValueError(
            f"seq_length={seq_length} is longer than max_positions={max_positions}; "
            "choose shorter sequences or more positions"
        )
