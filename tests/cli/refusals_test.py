"""Commands that cannot be: one line says what is wrong, and nothing is written."""

import os
import shlex

import numpy as np
import pytest

from tests.cli.command import error, tfnlp, write_texts
from tests.cli.toy_tasks import backbone
from tfnlp.convert import write_word_vectors
from tfnlp.text import WordVectors

TOY = "--num-layers 1 --batch-size 8 --steps 4 --input train.txt --output out --layout lines"

REFUSED = {
    # Pretraining.
    f"pretrain bert --seq-length 16 --vocab-size 300 --hidden-size 16 --num-heads 2 {TOY}": {
        "--seq-length 600 --max-positions 512": "--seq-length 600 is longer",
        "--hidden-size 17": "--hidden-size 17 is not a multiple of --num-heads 2",
        "--seq-length 4": "seq_length",
        "--batch-size 9 --accumulation 2": "batch of 9 does not divide",
        "--warmup 3": "--warmup 3",
        "--steps 0": "steps",
        "--valid nowhere.txt": "nowhere.txt",
        "--input nowhere.txt": "nowhere.txt",
        "--input *.nothing": "*.nothing",
        "--input .": ". is a folder",
        "--input -": "--input -: standard input is not read",
        "--learning-rate inf": "--learning-rate inf must be a finite number",
        "--seed 99999999999": "--seed 99999999999 must be at most",
        # What no machine holds is said before anything is built, which would take for ever.
        "--num-layers 10000000": "--num-layers 10000000 must be between 1 and 1000",
        "--hidden-size 1000000000": "x --hidden-size 1,000,000,000 numbers; this machine has",
        "--intermediate-size 1000000000": "needs 528.0 GB of memory or more",
        "--batch-size 100000000": "--batch-size 100,000,000 needs 102.4 GB of memory or more",
    },
    "pretrain bert --input train.txt --output out": {
        "--from {gpt}": "is a GPT; only a BERT fills masked words",
        "--from {elmo}": "is an ELMo; only a BERT fills masked words",
    },
    f"pretrain gpt --seq-length 16 --vocab-size 320 --hidden-size 16 --num-heads 2 {TOY}": {
        "--seq-length 600 --max-positions 512": "longer than the model's 512",
        "--hidden-size 15": "--hidden-size 15 is not a multiple of --num-heads 2",
        "--vocab-size 100": "vocab_size=100",
        "--vocab nowhere": "nowhere",
        "--seq-length 100000": "fewer than a window of 100000",
    },
    f"pretrain elmo --units 8 --projection-size 4 --window 5 --samples 50 {TOY}": {
        "--batch-size 9 --accumulation 2": "batch of 9 does not divide by 1 devices x",
        "--units 0": "--units 0 must be at least 1",
        "--samples -3": "--samples -3 must be 0 or more",
        "--dropout 1.5": "--dropout 1.5 must be between 0 and 1",
        "--steps 0": "--steps 0 must be at least 1",
        "--epochs 0": "--epochs 0.0 must be above 0",
        "--evaluate-every 0": "--evaluate-every 0 must be at least 1",
        "--clip-norm -1": "--clip-norm -1.0 must be 0 or more",
        "--learning-rate 0": "--learning-rate 0.0 must be above 0",
        "--window 0": "--window 0 must be at least 1",
        "--window 5000": "places (window)",
        "--max-vocab 2": "max_size must be 4 or more",
        "--min-count 99999": "min_count=99999",
        "--valid nowhere.txt": "nowhere.txt",
        "--held-out 2": "held",
    },
    "pretrain elmo --input train.txt --output out --layout lines": {"--from nowhere": "nowhere"},
    "pretrain word2vec --input train.txt --output out --sample 0 --layout lines --steps 4": {
        "--batch-size 8 --accumulation 3": "does not divide by",
        "--dimension 0": "--dimension 0 must be at least 1",
        "--window 40000": "--window 40000 must be between 1 and 32767",
        "--negatives 0": "--negatives 0.0 must be above 0",
        "--sample -1": "--sample -1.0 must be 0 or more",
        "--batch-size 9999": "too few for one batch of 9999 blocks",
        "--vocab several.txt": "'he said' in line 2; expected one word",
        "--batch-size 8 --subwords --min-n 7": "--min-n 7 must be at least 1 and at most --max-n 6",
    },
    "pretrain glove --input train.txt --output out --layout lines --steps 4": {
        "--window 0": "--window 0 must be at least 1",
        "--x-max 0": "--x-max 0.0 must be above 0",
        "--alpha -1": "--alpha -1.0 must be 0 or more",
        "--vocab several.txt": "'he said' in line 2; expected one word",
    },
    "pretrain nnlm --input train.txt --output out --layout lines --steps 4": {
        "--context 0": "--context 0 must be at least 1",
        "--embedding-size 0": "--embedding-size 0 must be at least 1",
        "--dropout 1": "--dropout 1.0 must be between",
        "--loss nce": "--samples 0 must be at least 1 with --loss nce",
        "--loss hierarchical --samples 5": "--samples 5 is not for --loss hierarchical",
    },
    "pretrain seq2seq --source train.txt --target train.txt --output out --steps 4": {
        "--attention none --input-feeding": "--input-feeding needs --attention",
        "--max-tokens 1": "no pair is shorter than --max-tokens 1",
        "--hidden-size 0": "--hidden-size 0 must be at least 1",
    },
    "vocab --input train.txt --output out": {
        "--size 99999999999999999999": "--size 99999999999999999999 must be at most",
        "--output bilm": "--output bilm is a folder; give a file to write",
        "--input -": "--input -: standard input is not read",
    },
    # Fine-tuning.
    "finetune fill --model {bert} --train train.txt --output out": {
        "--seq-length 41": "--seq-length 41 is longer than the model's 40 positions",
        "--dev nowhere.txt": "nowhere.txt",
        "--model nowhere": "nowhere",
        "--model {gpt}": "is a GPT; only a BERT fills masked words",
    },
    "finetune classify --model {bert} --train rows.tsv --dev rows.tsv --output out": {
        "--model {vectors}": "a BERT, a GPT or an ELMo can be",
        "--learning-rate 0": "--learning-rate 0.0 must be above 0",
        "--seeds 1 1": "must be distinct",
        "--metric bleu": "--metric bleu is not among accuracy",
        "--max-length 4000": "longer than the",
        "--model train.txt": "train.txt is a file of an unknown format; expected",
        "--model damaged": "damaged/config.json is not valid JSON",
        "--model pair/encoder": "pair/encoder is one of the modules in {folder}/pair: give that",
        "--batch-size 4000000000": "--batch-size 4,000,000,000 needs",
        "--text nothing": "nothing",
    },
    # Export.
    "export --model {bert} --output out": {
        "--trainable mix": "--trainable is for an ELMo; {bert} is a BERT",
        "--cache x": "--cache is for an ELMo; {bert} is a BERT",
        "--l2 0": "--l2 is for an ELMo; {bert} is a BERT",
        "--format bilm": "--format bilm is not for a BERT; choose savedmodel, hug",
        "--fill --seq-length 8": "--seq-length is for the pair",
        "--fill --weights int8": "--weights is for the pair, not for --fill",
        "--fill --litert x": "--litert is for the pair, not for --fill",
        "--fill --top 0": "top=0 must be at least 1",
        "--top 3": "--top is for --fill",
    },
    "export --model {elmo} --output out": {
        "--seq-length 8": "a BERT or a GPT; {elmo} is an ELMo",
        "--format bilm --l2 0.1": "--l2 is for a SavedModel, not for --format bilm",
        "--trainable all --cache x": 'cache needs trainable="mix"',
        "--cache nowhere.txt": "cache nowhere.txt does not exist",
        "--l2 -1": "l2=-1.0 must be at least 0",
        "--weights int8": "a BERT or a GPT; {elmo} is an ELMo",
        "--litert x": "a BERT or a GPT; {elmo} is an ELMo",
    },
    "export --model {gpt} --output out": {
        "--fill": "a BERT; ",
        "--format bilm": "--format bilm is not for a GPT",
        "--cache x": "--cache is for an ELMo; ",
        "--format huggingface --weights int8": (
            "--weights is for a SavedModel, not for --format hug"
        ),
    },
    "export --model {vectors} --output out": {
        "--format bilm": "--format bilm is not for word vectors",
        "--format glove --combiner sum": "--combiner is for a SavedModel",
        "--trainable all": "--trainable is for an ELMo",
        "--oov-buckets 0": "oov_buckets=0",
    },
    "export --output out": {
        "--model nowhere": "nowhere",
        "--model bilm": "holds no *options*.json",
    },
    # Evaluation.
    "evaluate --model {bert} --input train.txt": {
        "--tokenize": "--tokenize is for an ELMo or an NNLM; ",
        "--model nowhere": "nowhere",
        "--model {elmo}": "does not say which words it predicts",
        "--model run": "run/config.json is not valid JSON",
    },
    "evaluate --model {gpt} --input train.txt --layout lines": {
        "--stride 17 --seq-length 16": "stride must lie in [1, 16]",
        "--batches 3": "a BERT; ",
        "--tokenize": "--tokenize is for an ELMo or an NNLM; ",
    },
    "evaluate --model {vectors}": {
        "": "is word vectors; give --analogies or --similarity",
        "--input train.txt --similarity pairs.txt": "a BERT or a GPT",
        "--analogies pairs.txt": "line 1 has 3 words",
        "--similarity pairs.txt --model broken.txt": "line 3 has 2 numbers behind its word",
        "--similarity pairs.txt --model nowhere.txt": "nowhere.txt does not exist",
    },
    # Prediction.
    "predict bert --model {bert}": {
        "'no mask here'": "has no [MASK]",
        f"'[MASK] {'a ' * 60}'": "the model reads 40",
        "'a [MASK]' --model nowhere": "nowhere",
        "'a [MASK]' --model task": "task is fine-tuned already; use `tfnlp predict task`",
    },
    "predict gpt --model {gpt} Mary": {
        "--temperature -1": "temperature=-1.0 must be 0 or more",
        "--top-p 0": "top_p=0.0 must be above 0",
        "--top-k -2": "top_k=-2 must be 0",
        "--max-new-tokens 0": "--max-new-tokens 0 must be at least 1",
        "--max-new-tokens 600": "are more than the model's 48 positions",
        "--beams 2 --samples 2": "give one of them",
    },
    "predict elmo --model {elmo}": {
        "": "nothing to do",
        "--word bank 'the bank'": "--corpus",
        "--word bank --corpus train.txt": "sentences that hold it",
        "--word bank --corpus train.txt 'a river'": "not a word of 'a river'",
        "--word zyx --corpus train.txt --same 'a zyx'": "does not hold the word",
        "--word a --corpus train.txt --layer top 'a b'": "choose one of word_emb",
        "--word a --corpus missing.txt 'a b'": "no such file: missing.txt",
        "--hdf5 out.hdf5": "needs --input",
        "--hdf5 out.hdf5 --input missing.txt": "missing.txt",
        "--hdf5 nowhere/out.hdf5 --input train.txt": "nowhere",
    },
    "predict word2vec --model {vectors}": {
        "pear": "'pear' is not among the 2 words",
        "king -": "lacks a word at its end",
        "king - - man": "lacks a word beside '-'",
        "'king man + woman'": "lacks a + or - before 'man'",
        "king --top 0": "--top 0",
    },
    "predict task 'a text'": {"--model {bert}": "config.json"},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """What stands for {bert} and so on in the commands."""
    folder = tmp_path_factory.mktemp("models")
    found = {kind: backbone(kind, folder) for kind in ("bert", "elmo", "gpt")}
    return found | {"vectors": "vectors.txt"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the files that the commands name."""
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path, 10_000, words=11, held_out=9)
    vectors = WordVectors(["king", "man"], np.eye(2, dtype="float32"))
    write_word_vectors("vectors.txt", vectors)
    (tmp_path / "pairs.txt").write_text("king man 8\nman king 1\n")
    (tmp_path / "broken.txt").write_text("2 3\na 1 2 3\nb 1 2\n")
    (tmp_path / "several.txt").write_text("the\nhe said\n")
    (tmp_path / "rows.tsv").write_text("text\tlabel\ngood\tyes\nbad\tno\n")
    (tmp_path / "bilm").mkdir()
    (tmp_path / "bilm/weights.hdf5").write_bytes(b"")
    configs = {"damaged": '{"model_type": "bert",', "run": '{"tfnlp":'}
    for name, text in (configs | {"task": '{"tfnlp": "", "model": "task"}'}).items():
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(text)
    (tmp_path / "damaged/checkpoints").rmdir()
    for name in ("encoder", "preprocessor"):
        (tmp_path / "pair" / name).mkdir(parents=True)
        (tmp_path / "pair" / name / "saved_model.pb").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    "command, options, message",
    [(command, *row) for command, rows in REFUSED.items() for row in rows.items()],
    ids=lambda value: " ".join(value.split()[:3]),
)
def test_commands_that_cannot_be(command, options, message, models, folder, capsys):
    before = sorted(os.listdir(folder))
    assert tfnlp(*shlex.split(f"{command} {options}".format(**models))) == 1
    assert message.format(**models, folder=folder) in error(capsys)
    assert sorted(os.listdir(folder)) == before


def test_paths_may_begin_with_a_tilde(folder, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(folder))
    assert tfnlp("vocab", "--input", "~/train.txt", "--output", "~/found.txt", "--size", "300") == 0
    assert (folder / "found.txt").exists() and not (folder / "~").exists()


def test_an_argument_that_is_not_utf8_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        tfnlp("vocab", "--input", "caf\udce9.txt", "--output", "out")  # Latin-1, as Python reads it
    assert caught.value.code == 2
    assert "the argument caf\\xe9.txt is not UTF-8 text" in capsys.readouterr().err
