"""Export a BERT or GPT as a pair of SavedModels, any other model as one."""

import argparse
import os

from tfnlp.commands.arguments import add_model

_ONLY = {
    "seq_length": ("bert", "gpt"),
    "trainable": ("elmo",),
    "cache": ("elmo",),
    "l2": ("elmo",),
    "format": ("elmo", "gpt", "vectors"),
    "fill": ("bert",),
    "top": ("bert",),
    "weights": ("bert", "gpt"),
    "litert": ("bert", "gpt"),
    "beams": ("translation",),
    "length_penalty": ("translation",),
    "combiner": ("vectors",),
    "oov_buckets": ("vectors",),
    "lowercase": ("vectors",),
    "strip_punctuation": ("vectors",),
}  # arguments that not all kinds of model have
_FILES = ("word2vec", "word2vec-binary", "fasttext", "glove")  # of word vectors
_NAMES = {
    "bert": "a BERT",
    "elmo": "an ELMo",
    "gpt": "a GPT",
    "translation": "one that translates",
    "vectors": "word vectors",
    "task": "fine-tuned",
}


def add_arguments(parser):
    """Arguments of `tfnlp export`; the folder says which model it is."""
    add_model(parser)
    parser.add_argument(
        "--output",
        required=True,
        metavar="DIR",
        help="BERT, GPT: folder for the pair; others: the module, or the file of --format",
    )
    # What is not given stays away from the namespace: an argument of the other kind is an error.
    for name, more in (
        ("seq-length", dict(type=int, help="BERT, GPT: length to pack to (default: 128)")),
        (
            "trainable",
            dict(
                choices=["mix", "all"],
                help="ELMo: what users of the module train, the mixing scalars or all weights "
                "(default: mix)",
            ),
        ),
        (
            "cache",
            dict(metavar="FILE", help="ELMo: words, one a line, to compute the vectors of now"),
        ),
        (
            "l2",
            dict(type=float, help="ELMo: penalty of the squared mixing scalars (default: 0)"),
        ),
        (
            "format",
            dict(
                choices=["savedmodel", "bilm", "huggingface", *_FILES],
                help="SavedModels, or the files that other libraries read: bilm-tf and AllenNLP "
                "of an ELMo, Hugging Face of a GPT, or one --output file of word vectors (default: "
                "savedmodel)",
            ),
        ),
        (
            "fill",
            dict(
                action="store_true",
                help="BERT: write one module instead, of strings with [MASK] to the words there",
            ),
        ),
        ("top", dict(type=int, help="BERT with --fill: guesses a mask (default: 5)")),
        (
            "weights",
            dict(
                choices=["bfloat16", "int8"],
                help="BERT, GPT: store matrices so, for inference alone: the module can't be "
                "trained then; says what is won and lost (default: float32)",
            ),
        ),
        (
            "litert",
            dict(
                metavar="FILE",
                help="BERT, GPT: write the encoder or model as a LiteRT (.tflite) file too, from "
                "ids of --seq-length",
            ),
        ),
        ("beams", dict(type=int, help="translation: hypotheses kept at a time (default: 4)")),
        (
            "length-penalty",
            dict(type=float, help="translation: above 0 it favours long ones (default: 0.6)"),
        ),
        (
            "combiner",
            dict(
                choices=["sqrtn", "mean", "sum"],
                help="word vectors: what becomes of a text's (default: sqrtn)",
            ),
        ),
        ("oov-buckets", dict(type=int, help="word vectors: rows for unseen words (default: 1)")),
        (
            "lowercase",
            dict(action="store_true", help="word vectors: the module lower-cases its texts"),
        ),
        (
            "strip-punctuation",
            dict(action="store_true", help="word vectors: the module leaves punctuation out"),
        ),
    ):
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS, **more)
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier export")


def run(args):
    """Writes DIR/encoder and DIR/preprocessor of a BERT, DIR/model and DIR/preprocessor of a GPT,
    or DIR of an ELMo, of what was fine-tuned and of a BERT that fills masks."""
    from tfnlp.commands.loading import kind_of
    from tfnlp.commands.run_config import TRANSLATION, VECTORS

    kind = kind_of(args.model)
    kind = "translation" if kind in TRANSLATION else kind
    kind = "vectors" if kind in VECTORS else kind
    given = {name: vars(args)[name] for name in _ONLY if name in vars(args)}
    for name in given:
        if kind not in _ONLY[name]:
            written = name.replace("_", "-")
            *others, last = (_NAMES[other] for other in _ONLY[name])
            kinds = f"{', '.join(others)} or {last}" if others else last
            raise ValueError(f"--{written} is for {kinds}; {args.model} is {_NAMES[kind]}")
    exports = {
        "bert": _export_bert,
        "elmo": _export_elmo,
        "gpt": _export_gpt,
        "translation": _export_translation,
        "task": _export_task,
        "vectors": _export_vectors,
    }
    exports[kind](args, **given)


def _export_task(args):
    from tfnlp.commands.task_models import load_task_run
    from tfnlp.hub.modules.fine_tuned import export_fine_tuned

    task_model = load_task_run(args.model).task_model
    print(f"module: {export_fine_tuned(args.output, task_model, args.overwrite)}")


def _export_translation(args, beams=4, length_penalty=0.6):
    from tfnlp import hub
    from tfnlp.commands.loading import load_translation

    loaded = load_translation(args.model)
    translator = hub.Translator(loaded.decoder, loaded.tokenizer, beams, length_penalty)
    print(f"module: {hub.export_translator(args.output, loaded.model, translator, args.overwrite)}")


def _export_vectors(
    args,
    format="savedmodel",
    combiner=None,
    oov_buckets=None,
    lowercase=False,
    strip_punctuation=False,
):
    from tfnlp import convert, hub
    from tfnlp.commands.word_vectors import load_vectors

    if format not in ("savedmodel", *_FILES):
        raise ValueError(
            f"--format {format} is not for word vectors; choose savedmodel or one of "
            f"{', '.join(_FILES)}"
        )
    options = {
        "combiner": combiner,
        "oov-buckets": oov_buckets,
        "lowercase": lowercase,
        "strip-punctuation": strip_punctuation,
    }
    given = [name for name, value in options.items() if value not in (None, False)]
    if format != "savedmodel" and given:
        raise ValueError(f"--{given[0]} is for a SavedModel, not for --format {format}")
    vectors = load_vectors(args.model)
    if format != "savedmodel":
        convert.write_word_vectors(args.output, vectors, format, args.overwrite)
        print(f"vectors: {args.output}")
        return
    module = hub.export_word_vectors(
        args.output,
        vectors,
        oov_buckets=1 if oov_buckets is None else oov_buckets,
        combiner=combiner or "sqrtn",
        lowercase=lowercase,
        punctuation=not strip_punctuation,
        overwrite=args.overwrite,
    )
    print(f"module: {module}")


def _export_bert(args, seq_length=None, fill=False, top=None, weights=None, litert=None):
    from tfnlp import hub
    from tfnlp.commands.loading import load_bert
    from tfnlp.hub.modules.fill import export_fill

    if fill and seq_length is not None:
        raise ValueError("--seq-length is for the pair; with --fill texts are as long as they are")
    if fill and (weights or litert):
        raise ValueError(f"--{'weights' if weights else 'litert'} is for the pair, not for --fill")
    if top is not None and not fill:
        raise ValueError("--top is for --fill")
    loaded = load_bert(args.model)
    if fill:
        path = export_fill(
            args.output,
            loaded.pretrainer,
            loaded.tokenizer,
            5 if top is None else top,
            args.overwrite,
        )
        print(f"module: {path}")
        return
    positions = loaded.encoder.get_layer("position_embedding").max_positions
    seq_length = min(128 if seq_length is None else seq_length, positions)
    encoder, preprocessor = hub.export_bert(
        args.output,
        loaded.encoder,
        loaded.tokenizer,
        loaded.pretrainer,
        seq_length=seq_length,
        overwrite=args.overwrite,
        weights=weights,
        litert=litert,
    )
    print(f"encoder: {encoder}\npreprocessor: {preprocessor}")
    if litert is not None:
        print(f"litert: {litert}")


def _export_gpt(args, seq_length=128, format="savedmodel", weights=None, litert=None):
    import tensorflow as tf

    from tfnlp import convert, hub
    from tfnlp.commands.loading import load_gpt
    from tfnlp.hub.modules.gpt import SERVED
    from tfnlp.hub.saving.litert import check_file, written
    from tfnlp.hub.saving.litert import convert as convert_to_litert
    from tfnlp.hub.saving.save import check_free

    _check_format(format, "huggingface", "a GPT")
    if format == "huggingface" and (weights or litert):
        raise ValueError(
            f"--{'weights' if weights else 'litert'} is for SavedModels, not for --format "
            "huggingface"
        )
    loaded = load_gpt(args.model)
    if format == "huggingface":
        convert.save_gpt(args.output, loaded.pretrainer, loaded.tokenizer, args.overwrite)
        print(f"checkpoint: {args.output}")
        return
    seq_length = min(seq_length, loaded.config["max_positions"])
    lite, paths = None, [os.path.join(args.output, name) for name in ("model", "preprocessor")]
    if litert is not None:
        for path in paths:
            check_free(path, args.overwrite)
            check_file(litert, path, args.overwrite)
        names = loaded.pretrainer.input
        spec = {name: tf.TensorSpec([None, seq_length], "int32", name) for name in names}
        lite = convert_to_litert(loaded.pretrainer, spec, SERVED, weights)
    with written(litert, lite):
        model, preprocessor = hub.export_gpt(
            args.output,
            loaded.pretrainer,
            loaded.tokenizer,
            seq_length=seq_length,
            overwrite=args.overwrite,
            weights=weights,
        )
    print(f"model: {model}\npreprocessor: {preprocessor}")
    if litert is not None:
        print(f"litert: {litert}")


def _check_format(format, other, name):
    if format not in ("savedmodel", other):
        raise ValueError(f"--format {format} is not for {name}; choose savedmodel or {other}")


def _export_elmo(args, format="savedmodel", **options):
    from tfnlp import convert
    from tfnlp.commands.loading import load_elmo
    from tfnlp.hub import export_elmo

    _check_format(format, "bilm", "an ELMo")
    if format == "bilm" and options:
        raise ValueError(f"--{next(iter(options))} is for a SavedModel, not for --format bilm")
    loaded = load_elmo(args.model)
    if format == "bilm":
        convert.save_elmo(args.output, loaded.encoder, loaded.pretrainer, args.overwrite)
        print(f"checkpoint: {args.output}")
    else:
        module = export_elmo(args.output, loaded.encoder, overwrite=args.overwrite, **options)
        print(f"module: {module}")

