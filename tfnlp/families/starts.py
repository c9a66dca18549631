"""The model that a run goes on from, and the sizes of Transformers that a config asks for."""

from typing import Any

from tfnlp.families.preparation import same_folder
from tfnlp.settings.sizes import CHANGED_SIZES, SizeSettings
from tfnlp.settings.text import SubwordTextSettings
from tfnlp.settings.training import StartSettings


def transformer_sizes(config: SizeSettings, published: dict[str, Any]) -> dict[str, Any]:
    """Return the published sizes with what the config changes of them."""
    sizes = dict(published)
    sizes.update({n: getattr(config, n) for n in CHANGED_SIZES if getattr(config, n) is not None})
    if config.hidden_size and not config.intermediate_size:
        sizes["intermediate_size"] = 4 * config.hidden_size
    if sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"`hidden_size` {sizes['hidden_size']} is not a multiple of `num_heads` "
            f"{sizes['num_heads']}"
        )
    return sizes


def check_length(config: SubwordTextSettings, positions: int) -> None:
    """Check that the training sequences are no longer than the model reads."""
    if config.seq_length > positions:
        raise ValueError(
            f"`seq_length` {config.seq_length} is longer than the model's {positions} positions; "
            "shorten the sequences or raise `max_positions`"
        )


def model_to_go_on_from(
    config: StartSettings, family: str, fixed: tuple[str, ...], vocabulary: tuple[str, ...] = ()
) -> Any:
    """Return the model of a family that `config.start` names, or None.

    The arguments `fixed` follow from that model, and those of `vocabulary` from its vocabulary.
    """
    from tfnlp.families import FAMILIES
    from tfnlp.families.recognition import load_pretrained

    if config.start is None:
        return None
    if same_folder(config.start, config.output):
        raise ValueError(
            f"`start` and `output` are the same folder, {config.output}; give a new `output`, or "
            "leave `start` out to resume the run"
        )
    refuse_with_start(config, fixed, "can't be changed with `start`")
    refuse_with_start(config, vocabulary, "can't be given with `start`, which has a vocabulary")
    return load_pretrained(config.start, family=FAMILIES[family])


def refuse_with_start(config: Any, names: tuple[str, ...], why: str) -> None:
    """Refuse arguments that follow from the model to go on from."""
    for name in names:
        value = getattr(config, name)
        if name in config.given and value is not None and value is not False:
            raise ValueError(f"`{name}` {why}")
