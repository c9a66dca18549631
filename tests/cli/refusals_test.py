"""Commands that cannot be: one line says what is wrong, and nothing is written."""

import os
import shlex

import numpy as np
import pytest

from tests.cli.command import error, tfnlp, write_texts
from tests.cli.toy_tasks import backbone
from tfnlp.checkpoints import write_word_vectors
from tfnlp.settings.tables import TASKS
from tfnlp.text import WordVectors

TOY = "--num-layers 1 --batch-size 8 --steps 4 --input train.txt --output out --layout lines"

FAR = "s3://bucket/run"  # TensorFlow without its extra file systems has none for it

REFUSED = {
    **{
        command: {"": f"{FAR} can't be reached: "}
        for command in (
            f"predict --model {FAR} x",
            f"finetune classify --model {FAR} --train rows.tsv --dev rows.tsv --output out",
            f"pretrain bert --input train.txt --output {FAR}",
            f"pretrain bert --examples {FAR} --output out",
            f"embed --model {FAR} --input train.txt --output vectors.npy",
        )
    },
    "pretrain bert --input train.txt --output out": {
        "--input latin1.txt": "latin1.txt",
        "--input one.txt": "sentence",
        "--vocab several.txt": "several.txt",
    },
    # Pretraining.
    f"pretrain bert --seq-length 16 --vocab-size 300 --hidden-size 16 --num-heads 2 {TOY}": {
        "--seq-length 600 --max-positions 512": "--seq-length 600",
        "--hidden-size 17": "--hidden-size 17 is not a multiple of --num-heads 2",
        "--batch-size 9 --accumulation 2": "batch of 9 does not divide",
        "--input *.nothing": "*.nothing",
        "--input -": "--input -: standard input is not read",
        # What no machine holds is said before anything is built, which would take for ever.
        "--hidden-size 1000000000": "x --hidden-size 1,000,000,000 numbers; this machine has",
        "--batch-size 100000000": "--batch-size 100,000,000 needs 102.4 GB of memory or more",
    },
    f"pretrain gpt --seq-length 16 --vocab-size 320 --hidden-size 16 --num-heads 2 {TOY}": {
        "--vocab-size 100": "vocab_size=100",
        "--seq-length 100000": "fewer than a window of 100000",
    },
    f"pretrain elmo --units 8 --projection-size 4 --window 5 --samples 50 {TOY}": {
        "--window 5000": "(window)",
        "--held-out 2": "held",
    },
    "pretrain word2vec --input train.txt --output out --sample 0 --layout lines --steps 4": {
        "--window 40000": "--window 40000",
        "--vocab several.txt": "'he said' in line 2",
        "--batch-size 8 --subwords --min-n 7": "--min-n 7 must be at most --max-n 6",
    },
    "pretrain nnlm --input train.txt --output out --layout lines --steps 4": {
        "--loss hierarchical --samples 5": "--samples 5 is not for --loss hierarchical",
    },
    "pretrain distilbert --input train.txt --output out": {
        "--temperature 3": "--temperature is about what is learnt from a --teacher",
        "--teacher {bert} --hidden-size 8": "--cosine-weight 0",
        "--teacher {gpt}": "has no masked-LM head",
    },
    "pretrain seq2seq --source train.txt --target train.txt --output out --steps 4": {
        "--attention none --input-feeding": "--input-feeding needs --attention",
        "--max-tokens 1": "no pair is shorter than --max-tokens 1",
    },
    "vocab --input train.txt --output out": {
        "--output bilm": "--output bilm is a folder",
        "--output nofs://a/vocab.txt": "nofs://a/vocab.txt can't be reached",
    },
    # Fine-tuning.
    "finetune fill --model {bert} --train train.txt --output out": {
        "--seq-length 41": "--seq-length 41",
        "--model {gpt}": "is a GPT",
    },
    "finetune classify --model {bert} --train rows.tsv --dev rows.tsv --output out": {
        "--model {vectors}": "a BERT, a GPT or an ELMo can be",
        "--seeds 1 1": "must be distinct",
        "--metric bleu": "--metric bleu is not among accuracy",
        "--model train.txt": "train.txt is a file of an unknown format",
        "--model damaged": "damaged/config.json is not a JSON file",
        "--model pair/encoder": "pair/encoder is one of the modules in {folder}/pair",
        "--batch-size 4000000000": "--batch-size 4,000,000,000 needs",
        "--lora 0": "--lora 0",
        "--lora-alpha 2": "--lora-alpha is for low-rank updates",
        "--lora 2 --features last": "--lora is for models that are trained themselves",
        "--train-weights layer_9": "--train-weights",
        "--pack --features last": "--pack can't be given with --features",
        "--pack --model {gpt}": "--pack needs a run or a checkpoint of BERT",
    },
    **{
        f"finetune {task} --model {{bert}} --train nope --output out": {"": "no such file: nope"}
        for task in TASKS
    },
    "finetune classify --model {bert} --train rows.tsv --output out": {
        "--dev nope": "no such file: nope",
        "--dev-limit 2": "--dev-limit is for a run with --dev",
    },
    "finetune embed --model {bert} --train train.txt --output out": {
        "": "give --dev",
        "--dev train.txt": "has single texts",
        "--dev rated.tsv --sizes 0": "--sizes 0",
        "--dev rated.tsv --sizes 999": "sizes",
    },
    # Export.
    "export --model {bert} --output out": {
        "--trainable mix": "--trainable is for the module of an ELMo, not for the pair of an",
        "--format bilm": "--format bilm is not for a BERT",
        "--fill --seq-length 8": "not for a module that fills masks (--fill)",
        "--top 3": "--top is for a module that fills masks (--fill), not for the pair",
    },
    "export --model {elmo} --output out": {
        "--seq-length 8": "{elmo} is an ELMo",
        "--format bilm --l2 0.1": "--l2 is for the module of an ELMo, not for the files of bilm-tf",
        "--trainable all --cache x": "cache",
        "--cache nowhere.txt": "cache nowhere.txt does not exist",
    },
    "export --model {gpt} --output out": {
        "--format huggingface --weights int8": "--weights is for the pair of a GPT",
    },
    "export --model {vectors} --output out": {
        "--format glove --combiner sum": "--combiner is for the module of word vectors",
    },
    "export --output out": {"--model bilm": "holds no *options*.json"},
    # Evaluation.
    "evaluate --model {bert} --input train.txt": {
        "--tokenize": "--tokenize is for an ELMo or an NNLM, not for a BERT",
        "--model {elmo}": "does not say which words it predicts",
        "--model run": "run/config.json is not valid JSON",
    },
    "evaluate --model {gpt} --input train.txt --layout lines": {
        "--stride 17 --seq-length 16": "stride must lie in [1, 16]",
    },
    "evaluate --model {vectors}": {
        "": "nothing to measure on; give --analogies or --similarity",
        "--analogies pairs.txt": "line 1 has 3 words",
    },
    # Prediction.
    "predict --model {bert}": {
        "'no mask here'": "has no [MASK]",
        f"'[MASK] {'a ' * 60}'": "the model reads 40",
        "'a [MASK]' --threshold 0.3": "--threshold is for an ELECTRA, not for a BERT or an ALBERT",
    },
    "predict --model {gpt} Mary": {
        "--max-new-tokens 600": "48 positions",
    },
    "predict --model {elmo}": {
        "--word bank --corpus train.txt": "sentences that hold it",
        "--word bank --corpus train.txt 'a river'": "not a word of 'a river'",
        "--word zyx --corpus train.txt --same 'a zyx'": "does not hold the word",
        "--hdf5 out.hdf5": "needs --input",
    },
    "predict --model {vectors}": {
        "pear": "'pear' is not among the 2 words",
        "king -": "lacks a word at its end",
    },
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
    (tmp_path / "several.txt").write_text("the\nhe said\n")
    (tmp_path / "rows.tsv").write_text("text\tlabel\ngood\tyes\nbad\tno\n")
    rated = "sentence1\tsentence2\tscore\n" + "the dog\ta cat\t1\na man\tman\t5\n" * 4
    (tmp_path / "rated.tsv").write_text(rated)
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9 au lait.\n" * 9)
    (tmp_path / "one.txt").write_text("Only one sentence.\n")
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


@pytest.mark.parametrize(
    "command, said",
    [
        ("predct --model x", "did you mean predict?"),
        ("finetune clasify", "did you mean classify?"),
        ("predict --model x a --topn 3", "unrecognized arguments: --topn 3; did you mean --top?"),
        ("pretrain bert --input x --output o --lr 1", "did you mean --learning-rate?"),
        ("export --model x --output o --format hugingface", "did you mean huggingface?"),
        ("predict a", "arguments are required: --model; see tfnlp predict --help"),
    ],
)
def test_command_lines_that_cannot_be_read_are_one_line(command, said, capsys):
    with pytest.raises(SystemExit) as caught:
        tfnlp(*command.split())
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(said)
