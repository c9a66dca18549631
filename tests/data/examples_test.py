"""Examples made by Beam: the batches of the text in memory, made again, and what training gets."""

import functools
import itertools
import os
import shutil
import signal
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.data.examples_support import (
    SEED,
    WORDS,
    arrays,
    assert_same,
    command,
    contents,
    documents_of,
    features,
    from_text,
    make,
    write_corpus,
)
from tests.support import ROOT, run_python
from tfnlp import cli, models
from tfnlp.cli.options import config_of
from tfnlp.data import (
    MaskedWindows,
    MaskedWindowShards,
    PairShards,
    SentencePairs,
    TokenizedCorpus,
    WindowShards,
    split_documents,
)
from tfnlp.data.shards.examples import make_examples, start_examples
from tfnlp.data.shards.recipes import MaskedWindowRecipe, PairRecipe
from tfnlp.families import FAMILIES
from tfnlp.families.examples import readable, with_examples
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, read_vocabulary

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfnlp.runs.examples.CHUNK", 600)
        yield


@pytest.fixture(scope="module")
def bert(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("bert") / "examples"
    return folder, make("bert", corpus, folder)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("gpt") / "examples"
    return folder, make("gpt", corpus, folder)


@pytest.fixture(params=["bert", "gpt"])
def examples(request):
    return request.param, *request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def made(bert):
    return bert[0]


def bert_shards(folder, **arguments):
    tokenizer = WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"))
    return PairShards(folder, tokenizer, **{"batch_size": 4, "max_predictions": 6, **arguments})


@pytest.mark.parametrize("arguments", [{}, {"whole_word": True}, {"mask_rate": 0.3}])
def test_bert_batches_are_those_of_the_text(bert, corpus, arguments):
    folder, _ = bert
    arguments = {"batch_size": 4, **arguments}
    pairs, valid = from_text("bert", folder, documents_of(corpus), **arguments)
    shards = bert_shards(folder, **arguments)
    assert shards.num_examples == pairs.num_examples
    assert shards.steps_per_epoch == pairs.steps_per_epoch
    assert shards.random_share == pytest.approx(pairs.random_share)
    assert shards.dataset().element_spec == pairs.dataset().element_spec
    total = 2 * pairs.steps_per_epoch
    assert total > 30
    for step, batch in zip(range(total), shards.dataset(), strict=False):
        assert_same(batch, pairs.batch(step))
    # The held-out text is there as it was tokenized.
    held_out = shards.held_out()
    for name in ("tokens", "sentence_starts", "document_starts"):
        np.testing.assert_array_equal(getattr(held_out, name), getattr(valid.corpus, name))
    again = SentencePairs(
        held_out, shards.tokenizer, seq_length=32, max_predictions=6, seed=SEED + 1,
        **arguments,
    )  # fmt: skip
    assert_same(again.batch(1), valid.batch(1))


def test_bert_batches_from_any_step_and_after_the_last_epoch(bert, corpus):
    folder, _ = bert
    pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=5)
    shards = bert_shards(folder, batch_size=5)
    steps = pairs.steps_per_epoch
    for first in (1, steps // 2, steps - 1, steps, steps + 7, 2 * steps - 1):
        for step, batch in zip(range(first, first + 3), shards.dataset(first), strict=False):
            if step < 2 * steps:
                assert_same(batch, pairs.batch(step))
            else:  # the first epoch comes again, with other masks
                assert_same(shards.batch(step), batch)
                before, now = arrays(shards.batch(step - 2 * steps)), arrays(batch)
                for name in ("input_mask", "next_sentence_labels", "input_type_ids"):
                    np.testing.assert_array_equal(before[name], now[name])
                assert (before["masked_lm_positions"] != now["masked_lm_positions"]).any()
    assert len(list(shards.evaluation_batches(3))) == 3
    assert_same(next(iter(shards.evaluation_batches(1))), pairs.batch(0))


@pytest.mark.parametrize("batch_size", [1000, 3])
def test_a_corpus_smaller_than_a_batch_goes_round(bert, corpus, batch_size):
    folder, _ = bert
    pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=batch_size)
    sizes = {len(pairs._draw(epoch).order) for epoch in range(2)}
    assert len(sizes) == 2  # so epoch 1 is cut, or goes round, too
    shards = bert_shards(folder, batch_size=batch_size)
    last = 2 * pairs.steps_per_epoch
    for step in {0, 1, last - 1}:
        assert_same(shards.batch(step), pairs.batch(step))


def test_gpt_batches_are_those_of_the_text(gpt, corpus):
    folder, manifest = gpt
    windows, valid = from_text("gpt", folder, documents_of(corpus, "gpt"), batch_size=4)
    shards = WindowShards(folder, batch_size=4)
    assert shards.windows_per_epoch == windows.windows_per_epoch
    assert shards.steps_per_epoch == windows.steps_per_epoch
    assert shards.dataset().element_spec == windows.dataset().element_spec
    total = int(2 * windows.steps_per_epoch)
    assert total > 20
    for step, batch in zip(range(total), shards.dataset(), strict=False):
        assert_same(batch, windows.batch(step))
    for first in (1, total // 2 - 1, total // 2, total - 2):
        for step, batch in zip(range(first, total), shards.dataset(first).take(2), strict=False):
            assert_same(batch, windows.batch(step))
    np.testing.assert_array_equal(shards.batch(2)["targets"], windows.batch(2)["targets"])
    assert manifest["counts"]["held_out"]["tokens"] == shards.held_out().num_tokens


def test_counts_are_what_is_there(bert, gpt, corpus):
    for model, (folder, manifest) in (("bert", bert), ("gpt", gpt)):
        pairs, valid = from_text(model, folder, documents_of(corpus, model), batch_size=1)
        counts, shards = manifest["counts"], manifest["shards"]
        found = {shard["file"]: features(folder / shard["file"]) for shard in shards}
        assert len(found) == 6 and manifest["finished"] is True
        for shard in shards:
            assert shard["examples"] == len(found[shard["file"]]) > 0
            assert shard["bytes"] == (folder / shard["file"]).stat().st_size
            assert shard["epoch"] == int(shard["file"].split("-")[1])
        assert counts["train"]["examples"] == sum(map(len, found.values()))
        if model == "bert":
            labels = [e["is_random"][0] for e in itertools.chain(*found.values())]
            assert counts["train"]["random"] == sum(labels) > 10
            assert counts["train"]["real"] == len(labels) - sum(labels) > 10
            for part, made in (("train", pairs), ("held_out", valid)):
                for what in ("documents", "sentences", "tokens"):
                    assert counts[part][what] == getattr(made.corpus, f"num_{what}")
            commonest = np.bincount(pairs.corpus.tokens).argmax()
            assert manifest["commonest_token"] == commonest
        else:
            for part, made in (("train", pairs), ("held_out", valid)):
                own = counts[part]
                assert own["tokens"] + own["sentences"] + 1 == len(made.stream)
            everything = documents_of(corpus, "gpt")
            for what, count in (
                ("lines", sum(len(d) for d in everything)),
                ("words", sum(len(line.split()) for d in everything for line in d)),
            ):
                assert counts["train"][what] + counts["held_out"][what] == count
        assert not (folder / "work").exists()
        settings = manifest["settings"]
        assert (settings["model"], settings["seed"], settings["epochs"]) == (model, SEED, 2)
        assert [name for name, _ in settings["input"]] == corpus


def test_two_workers_write_the_same_bytes(bert, corpus, tmp_path, capfd):
    folder, _ = bert
    make("bert", corpus, tmp_path / "two", "--workers", "2")
    assert contents(tmp_path / "two") == contents(folder)
    error = capfd.readouterr().err
    assert "tokenizing" in error and "writing shards" in error
    assert "INFO" not in error and "Worker" not in error


def assert_made(model, folder, made, held, steps):
    """A folder of examples has the batches `made` and the held-out text `held`."""
    if model == "bert":
        shards = bert_shards(folder, batch_size=4)
        np.testing.assert_array_equal(shards.held_out().tokens, held.corpus.tokens)
    else:
        shards = WindowShards(folder, batch_size=4)
    for step in steps:
        assert_same(shards.batch(step), made.batch(step))


def test_own_held_out_text(examples, corpus, tmp_path):
    model, folder, _ = examples
    vocabulary = folder / ("vocab.txt" if model == "bert" else "vocab")
    make(model, corpus[1:2], tmp_path / "x", "--valid", corpus[0], "--vocab", str(vocabulary))
    train, valid = documents_of(corpus[1:2], model), documents_of(corpus[:1], model)
    made, held = from_text(model, folder, train, valid, batch_size=4)
    assert_made(model, tmp_path / "x", made, held, (0, 3))


@pytest.mark.filterwarnings("ignore:the corpus is one document")
@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_a_single_document_is_cut(model, corpus, tmp_path):
    lines = [line for document in documents_of(corpus[:1]) for line in document]
    (tmp_path / "one.txt").write_text("\n".join(lines))
    files = [str(tmp_path / "one.txt")]
    flags = ("--layout", "lines", "--held-out", "0.2", "--epochs", "1")
    manifest = make(model, files, tmp_path / "x", *flags)
    made, held = from_text(model, tmp_path / "x", [lines], held_out=0.2, batch_size=4)
    counts = manifest["counts"]
    assert counts["train"]["lines"] + counts["held_out"]["lines"] == len(lines)
    assert_made(model, tmp_path / "x", made, held, (0, 4))


VOCABULARY = [*SPECIAL_TOKENS, ".", *WORDS]
MAKER = functools.partial(WordPieceTokenizer, VOCABULARY)
RECIPES = {
    "swapped": PairRecipe(MAKER, "swapped"),
    "following": PairRecipe(MAKER, "following"),
    "windows": MaskedWindowRecipe(MAKER, sep_id=3),
}


def make_of(recipe, corpus, output):
    from tfnlp.data.shards.runner import Runner

    settings = {
        "tfnlp": "0", "model": "any", "input": [[name, None] for name in corpus], "valid": None,
        "layout": "auto", "held_out": 0.05, "seed": SEED, "epochs": 2, "shards": 3, "chunk": 600,
        "seq_length": 32, "short_seq_prob": 0.1, **recipe.settings,
    }  # fmt: skip
    start_examples(output, settings)
    return make_examples(output, settings, recipe, Runner("DirectRunner", 1, []))


@pytest.mark.parametrize("name", RECIPES)
def test_batches_of_every_shape_are_those_of_the_text(name, corpus, tmp_path):
    recipe, tokenizer = RECIPES[name], MAKER()
    manifest = make_of(recipe, corpus, tmp_path / "examples")
    documents, _ = split_documents(documents_of(corpus), 0.05, SEED)
    text = TokenizedCorpus.build(documents, tokenizer, progress=False)
    arguments = {"batch_size": 4, "max_predictions": 6}
    if name == "windows":
        made = MaskedWindows(text, tokenizer, seq_length=32, seed=SEED, **arguments)
        shards = MaskedWindowShards(tmp_path / "examples", tokenizer, **arguments)
    else:
        made = SentencePairs(text, tokenizer, seq_length=32, seed=SEED, second=name, **arguments)
        shards = PairShards(tmp_path / "examples", tokenizer, **arguments)
    assert shards.steps_per_epoch == made.steps_per_epoch > 10
    assert shards.dataset().element_spec == made.dataset().element_spec
    for step, batch in zip(range(2 * made.steps_per_epoch), shards.dataset(), strict=False):
        assert_same(batch, made.batch(step))
    counts = manifest["counts"]["train"]
    if name == "swapped":
        assert counts["swapped"] + counts["in_order"] == counts["examples"]
        labels = np.concatenate([made.plan(epoch)[:, 4] for epoch in range(2)])
        assert abs(counts["swapped"] / counts["examples"] - labels.mean()) < 0.05
    else:
        assert "swapped" not in counts


# ---- made again: after a kill, with other settings, with damaged shards and bad input

# Runs the command, but kills the process when it is about to write its nth noted file.
_KILLED = """
import os, signal, sys
import tfnlp.runs.examples as command
from tests.data.examples_support import make
from tfnlp.data.shards.folder import Folder

command.CHUNK, left, kind = 600, int(sys.argv[1]), sys.argv[2]
note = Folder._note

def killed(self, name, *more):
    global left
    left -= kind in name
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    note(self, name, *more)

Folder._note = killed
make("bert", *eval(sys.argv[3]))
"""


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.long
@pytest.mark.parametrize(("files", "number"), [("piece", 3), ("train", 4)])
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(corpus, made, tmp_path, files, number):
    folder = tmp_path / "killed"
    arguments = repr((corpus, str(folder)))
    run = run_python(_KILLED, number, files, arguments, folder=ROOT, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    notes = sorted((folder / "work").glob(f"{files}*.json"))
    assert len(notes) == number - 1
    with pytest.raises(ValueError, match="are not finished; give the same tfnlp examples command"):
        bert_shards(folder)
    before = {}
    for note in notes:
        name = note.name.removesuffix(".json")
        path = (folder if files == "train" else folder / "work") / name
        before[path] = path.stat().st_ino  # of a file that is written again it is another
    if files == "train":
        make("bert", corpus, folder)
        assert {path: path.stat().st_ino for path in before} == before
    else:
        kept = []
        remove = "tfnlp.data.shards.folder.Folder.remove_work"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(remove, lambda self: kept.append(1))
            make("bert", corpus, folder)
        assert kept and {path: path.stat().st_ino for path in before} == before
        make("bert", corpus, folder)  # only removes what served its making
    assert contents(folder) == contents(made)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed", "4", "--epochs", "3"], "epochs was 2, now 3; seed was 3, now 4"),
        (["--cased"], "lowercase was true, now false"),
    ],
)
def test_other_settings_are_refused(corpus, made, flags, message):
    before = contents(made)
    with pytest.raises(ValueError, match=f"{made} .*{message}"):
        make("bert", corpus, made, *flags)
    assert contents(made) == before


def test_another_text_or_model_or_folder_is_refused(corpus, made, tmp_path):
    with pytest.raises(ValueError, match="input was "):
        make("bert", corpus[:2], made)
    with pytest.raises(ValueError, match="pairs for bert, not windows"):
        WindowShards(made, batch_size=4)
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        WindowShards(tmp_path, batch_size=4)
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(ValueError, match="holds other files"):
        make("bert", corpus, tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_damaged_shards_are_named_and_mended(corpus, made, copy):
    name = "train-00001-00001.tfrecord"
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole[:-9])
    with pytest.raises(OSError, match=f"{name} has {len(whole) - 9} bytes, not the {len(whole)}"):
        bert_shards(copy)
    (copy / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing; give the command"):
        bert_shards(copy)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    (copy / name).write_bytes(changed)
    shards = bert_shards(copy)
    with pytest.raises(OSError, match=f"{copy / name} is damaged"), shards.readable():
        for _ in shards.dataset().take(2 * shards.steps_per_epoch):
            pass
    (copy / "held_out.tfrecord").write_bytes((copy / "held_out.tfrecord").read_bytes()[:-1] + b"?")
    with pytest.raises(OSError, match="held_out.tfrecord is damaged"):
        bert_shards(copy).held_out()
    intact = (copy / "train-00000-00000.tfrecord").stat().st_ino
    make("bert", corpus, copy)
    assert contents(copy) == contents(made)
    assert (copy / "train-00000-00000.tfrecord").stat().st_ino == intact


def test_readable_leaves_other_errors(made):
    with pytest.raises(tf.errors.InvalidArgumentError), bert_shards(made).readable():
        tf.reshape([1, 2], [3])


def test_finished_examples_are_left_alone(corpus, made, copy):
    before = {path: path.stat().st_ino for path in copy.iterdir() if path.suffix == ".tfrecord"}
    make("bert", corpus, copy)
    assert {path: path.stat().st_ino for path in before} == before
    assert contents(copy) == contents(made)


def test_a_bad_manifest(copy):
    for content in ("{", "[]"):
        (copy / "manifest.json").write_text(content)
        with pytest.raises(ValueError, match="manifest.json"):
            bert_shards(copy)


def tfnlp(*arguments):
    """The command line as people give it; returns the exit code."""
    return cli.main(cli.parse(["tfnlp", "examples", *arguments]))


def test_the_command(made, corpus, tmp_path, capsys):
    assert tfnlp(*command("bert", corpus, tmp_path / "x")) == 0
    assert contents(tmp_path / "x") == contents(made)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["shard", "epoch", "examples", "MB"] and len(lines) == 11
    assert lines[-4].startswith("to train on: ") and lines[-3].startswith("held out: ")
    assert "real pairs" in lines[-2] and lines[-1] == f"examples: {tmp_path / 'x'}"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--epochs", "0"], "--epochs"),
        (["--workers", "2", "--runner", "FlinkRunner"], "--workers"),
        (["--vocab", "nowhere"], "nowhere"),
    ],
)
def test_wrong_arguments(corpus, tmp_path, capsys, flags, message):
    assert tfnlp(*command("bert", corpus[:1], tmp_path / "x"), *flags) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tfnlp: error: ") and message in error


def test_bad_text_is_named(made, corpus, tmp_path, capsys):
    path = tmp_path / "latin1.txt"
    path.write_bytes("Ein Märchen.\nUnd es war einmal.\n".encode("latin-1"))
    vocabulary = ["--vocab", str(made / "vocab.txt")]
    assert tfnlp(*command("bert", [*corpus, str(path)], tmp_path / "x"), *vocabulary) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"tfnlp: error: {path} is not UTF-8 text: invalid byte 0xe4 at byte 5")
    # Once it is mended, the same command goes on... with a file of another size it can't.
    path.write_text("Once upon a time.\nThere was a dog.\n")
    assert tfnlp(*command("bert", [*corpus, str(path)], tmp_path / "x"), *vocabulary) == 1
    assert "holds examples with other settings" in capsys.readouterr().err
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    assert tfnlp(*command("bert", [str(empty)], tmp_path / "y"), *vocabulary) == 1
    assert "the corpus holds no tokens to train on" in capsys.readouterr().err


# ---- what `--examples` gives to training


def config_for(model, *flags):
    """The config of `tfnlp pretrain MODEL FLAGS`."""
    more = ["--output", "run", "--batch-size", "4"]
    return config_of(cli.parse(["tfnlp", "pretrain", model, *more, *map(str, flags)]))


def prepare(config, model, before=None):
    """What training makes of a config with examples."""
    family = FAMILIES[model]
    return family.prepare(with_examples(config, model), before, tf.distribute.get_strategy())


def test_training_gets_what_the_text_would_give(examples, corpus):
    model, folder, manifest = examples
    config = config_for(model, "--examples", folder, "--evaluate-batches", 3)
    settled = with_examples(config, model)
    assert (settled.seq_length, settled.seed) == (32, SEED)
    train, valid = from_text(model, folder, documents_of(corpus, model), batch_size=4)
    found = prepare(config.replace(max_predictions=6) if model == "bert" else config, model)
    model_of_any_size = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    said = found.describe(model_of_any_size, model_of_any_size, 7)
    if model == "bert":
        assert f"{train.corpus.num_tokens:,} tokens of {train.corpus.num_documents} doc" in said
        assert f"held out: {valid.corpus.num_tokens:,} tokens" in said
        assert len(found.held_out) == min(3, valid.steps_per_epoch)
        for ours, theirs in zip(found.held_out, valid.evaluation_batches(3), strict=True):
            assert_same(ours, theirs)
        tokens = train.corpus.num_tokens
    else:
        tokens = len(train.stream) - 1
        words = sum(manifest["counts"]["train"][what] for what in ("words", "lines"))
        assert f"{tokens:,} tokens" in said and f"({tokens / words:.2f} a word)" in said
        assert f"held out: {len(valid.stream) - 1:,} tokens" in said
    assert_same(found.batches.batch(2), train.batch(2))
    assert found.corpus["tokens"] == tokens and found.corpus["examples"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed", "0"], "`seed` 0 contradicts `examples` .*, made with 3; leave it out"),
        (["--seq-length", "128"], "`seq_length` 128 contradicts `examples` .*, made with 32"),
        (["--input", "a.txt"], "`text` can't be given with `examples`, which has its own"),
        (["--layout", "auto"], "`layout` can't be given with `examples`"),
        (["--vocab-size", "8000"], "`vocab_size` can't be given with `examples`"),
        (["--held-out", "0.05"], "`held_out` can't be given with `examples`"),
    ],
)
def test_contradictions_are_refused(examples, flags, message):
    model, folder, _ = examples
    with pytest.raises(ValueError, match=message):
        with_examples(config_for(model, "--examples", folder, *flags), model)
    same = config_for(model, "--examples", folder, "--seed", SEED, "--seq-length", 32)
    assert with_examples(same, model).seed == SEED


def test_without_examples_the_text_is_needed(examples):
    model, folder, _ = examples
    config = with_examples(config_for(model, "--input", "a.txt"), model)
    assert (config.seq_length, config.seed, config.held_out, config.layout) == (
        128, 0, 0.05, "auto",
    )  # fmt: skip
    with readable(config, model):
        pass
    with pytest.raises(ValueError, match="give `text`, or `examples` made by tfnlp examples"):
        with_examples(config_for(model), model)
    with pytest.raises(FileNotFoundError, match="holds no manifest.json"):
        with_examples(config_for(model, "--examples", folder.parent), model)


def test_another_vocabulary_is_refused(examples):
    model, folder, _ = examples
    config = config_for(model, "--examples", folder, "--from", "there")
    tokenizer = types.SimpleNamespace(vocabulary=["[PAD]"], lowercase=True, merges=[])
    encoder = models.bert(**models.BERT_TINY) if model == "bert" else None
    before = types.SimpleNamespace(
        tokenizer=tokenizer, encoder=encoder, config=dict(models.GPT_MINI, max_positions=64)
    )
    with pytest.raises(ValueError, match="with another vocabulary than `start` there has"):
        prepare(config, model, before)
