"""DistilBERT (Sanh et al. 2019) as a family."""

import functools
from typing import Any

from tfnlp.families import defaults, distillation, encoders, fitting
from tfnlp.families.distillation import DISTILBERT_TEXT
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.starts import transformer_sizes
from tfnlp.settings.distilbert import SIZES, DistilBertSettings
from tfnlp.settings.sizes import CHANGED_SIZES


def start(config: DistilBertSettings) -> Any:
    """Return the DistilBERT to go on from; without one the teacher; or None."""
    distillation.check_teacher(config)
    if config.start is None and config.teacher is not None:
        return distillation.load_teacher(config)
    return encoders.start("distilbert", config)


def settle(config: DistilBertSettings, before: Any) -> DistilBertSettings:
    """Return the config with the sizes of the student, if it is not what training goes on from."""
    from tfnlp import models

    if config.start is not None:
        return config
    published = getattr(models, SIZES[config.size])
    if config.teacher is None:
        sizes = transformer_sizes(config, published)
    else:
        given = published if "size" in config.given else {}
        sizes = distillation.student_sizes(config, given, before)
        if "initializer_range" not in config.given:
            before_stop = defaults.recorded(config, config.output, "arguments", "initializer_range")
            found = before_stop or defaults.initializer_range(sizes["hidden_size"])
            config = config.replace(initializer_range=found)
    return config.replace(**{name: sizes[name] for name in CHANGED_SIZES})


DISTILBERT = encoders.encoder_family(
    "distilbert",
    DISTILBERT_TEXT,
    title="a DistilBERT",
    config=DistilBertSettings,
    sizes=SIZES,
    start=start,
    settle=settle,
    prepare=distillation.prepare,
    fitting=encoders.encoder_fitting(
        "distilbert",
        fine_tuned=functools.partial(fitting.fine_tuned_encoder, hidden="relu", drop_first=False),
    ),
    plan=masked_plan("distilbert", SIZES, vocab_size=30522),
    prediction=mask_prediction("distilbert", "a DistilBERT", "[MASK]", pairs=False),
)  # fmt: skip
