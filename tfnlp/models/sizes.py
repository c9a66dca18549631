"""Checks of the sizes that models are built with."""


def check_positive(**sizes: int) -> None:
    """Raise a ValueError that names the first size below 1."""
    for argument, value in sizes.items():
        if value < 1:
            raise ValueError(f"{argument}={value} must be at least 1")


def check_transformer(
    num_layers: int,
    hidden_size: int,
    num_heads: int,
    seq_length: int | None = None,
    max_positions: int | None = None,
) -> None:
    """Check that the sizes of a Transformer fit together.

    Raises:
        ValueError: for no layers, a width that is not a multiple of the heads, a seq_length below
            1, or sequences that are longer than the positions.
    """
    check_positive(num_layers=num_layers, seq_length=1 if seq_length is None else seq_length)
    if num_heads < 1 or hidden_size % num_heads:
        raise ValueError(f"hidden_size={hidden_size} is not a multiple of num_heads={num_heads}")
    if seq_length is not None and max_positions is not None and seq_length > max_positions:
        raise ValueError(
            f"seq_length={seq_length} is longer than max_positions={max_positions}; "
            "choose shorter sequences or more positions"
        )
