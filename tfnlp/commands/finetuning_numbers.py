"""The numbers of a fine-tuning: those of the command line, else the papers'."""


def check_numbers(args):
    """Raises ValueError for numbers that no training can have."""
    for name, holds, wanted in (
        ("epochs", lambda x: x > 0, "above 0"),
        ("batch_size", lambda x: x >= 1, "at least 1"),
        ("accumulation", lambda x: x >= 1, "at least 1"),
        ("evaluations", lambda x: x >= 1, "at least 1"),
        ("limit", lambda x: x >= 1, "at least 1"),
        ("patience", lambda x: x >= 1, "at least 1"),
        ("units", lambda x: x >= 1, "at least 1"),
        ("lstm_layers", lambda x: x >= 1, "at least 1"),
        ("word_embeddings", lambda x: x >= 0, "0 or more"),
        ("learning_rate", lambda x: x > 0, "above 0"),
        ("warmup", lambda x: 0 <= x <= 1, "between 0 and 1"),
        ("weight_decay", lambda x: x >= 0, "0 or more"),
        ("clip_norm", lambda x: x >= 0, "0 or more"),
        ("dropout", lambda x: 0 <= x < 1, "between 0 and 1"),
        ("lm_weight", lambda x: x >= 0, "0 or more"),
        ("layer_decay", lambda x: 0 < x <= 1, "above 0 and at most 1"),
        ("freeze", lambda x: x >= 0, "0 or more"),
        ("unfreeze_every", lambda x: x > 0, "above 0"),
    ):
        value = getattr(args, name)
        if value is not None and not holds(value):
            raise ValueError(f"--{name.replace('_', '-')} {value} must be {wanted}")
    if min(args.seeds) < 0 or len(set(args.seeds)) < len(args.seeds):
        raise ValueError(f"--seeds {args.seeds} must be distinct and 0 or more")


def settings_of(args, backbone, features):
    """The training's numbers: those given, else the papers'."""
    narrow = (backbone.width or 768) < 768
    if features is not None:
        defaults = dict(epochs=6.0, learning_rate=2e-3, warmup=0.1, weight_decay=0.0, dropout=0.5)
    elif backbone.kind == "gpt":
        rate = 5e-4 if narrow else 6.25e-5
        defaults = dict(
            epochs=3.0, learning_rate=rate, warmup=0.002, weight_decay=0.01, dropout=0.1
        )
    else:
        rate = 3e-4 if narrow else 3e-5
        defaults = dict(epochs=3.0, learning_rate=rate, warmup=0.1, weight_decay=0.01, dropout=0.1)
    settings = {
        name: value if getattr(args, name) is None else getattr(args, name)
        for name, value in defaults.items()
    }
    for name in ("batch_size", "accumulation", "clip_norm", "layer_decay"):
        settings[name] = getattr(args, name)
    settings.update(freeze=args.freeze, unfreeze_every=args.unfreeze_every)
    whole_gpt = backbone.kind == "gpt" and features is None and backbone.saved is None
    settings["lm_weight"] = args.lm_weight if whole_gpt else 0.0
    return settings
