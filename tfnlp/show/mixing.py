"""How much of each layer is in a mix of layers."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.families.elmo import Elmo
from tfnlp.layers import ScalarMix
from tfnlp.runs.task_run import TaskRun
from tfnlp.show.picture import Picture, finished, loaded_model, name_of, plotly


def mixture(model: Any) -> Picture:
    """Show `softmax(s)` of each mix of layers (Peters et al. 2018, eq. 1 and figure 2).

    Args:
        model: A task that was fine-tuned on the layers of a frozen model, an ELMo, or a path.

    Returns:
        a `Picture` whose `values` are a dict of a mix's name to its shares by layer.

    Raises:
        ValueError: for a model that mixes no layers.
    """
    model = loaded_model(model)
    whole = model.task_model.model if isinstance(model, TaskRun) else model.encoder
    mixes = [x for x in getattr(whole, "layers", ()) if isinstance(x, ScalarMix)]
    if not mixes:
        raise ValueError(
            f"{model.path} mixes no layers; give an ELMo, or a task that was fine-tuned with "
            "`features`"
        )
    go, values, lines = plotly(), {}, []
    figure = go.Figure()
    for mix in mixes:
        names = mixed_layers(model.family, mix.num_layers)
        shares = tf.nn.softmax(mix.scalars).numpy()
        values[mix.name] = dict(zip(names, map(float, shares), strict=True))
        lines += [f"{mix.name}, gamma {float(np.asarray(mix.gamma)):.3f}"]
        lines += [f"  {name:12s}{share:.3f}" for name, share in values[mix.name].items()]
        figure.add_bar(x=names, y=shares, name=mix.name, texttemplate="%{y:.3f}")
    figure.update_yaxes(title="share in the mix", rangemode="tozero")
    finished(
        figure, f"Layers in the mix of {name_of(model)}", 160 + 90 * len(names) * len(mixes), 400
    )
    return Picture(figure=figure, values=values, text="\n".join(lines))


def mixed_layers(family: Any, count: int) -> list[str]:
    """Return names of the layers of a mix; an ELMo's has its word vectors, too."""
    if isinstance(family, Elmo):
        return ["letters", *(f"LSTM {n}" for n in range(1, count))]
    return [f"layer {n}" for n in range(1, count + 1)]
