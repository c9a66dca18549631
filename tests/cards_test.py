"""Model cards: what they say, and reading those of anybody."""

import json
import os

from tfnlp.cards import Card, card_of_export, licence_of, name_of, read_card
from tfnlp.checkpoints.folders import new_folder
from tfnlp.hub.loading.traces import printable
from tfnlp.hub.saving.save import together

CARD = Card(
    "A BERT, fine-tuned to classify texts: no, yes.",
    "hf://org/small@0123",
    "apache-2.0",
    ("train.tsv, 14 examples, CRC-32 0000beef",),
    {"learning_rate": 3e-4, "freeze": None, "a|b": "x\ny"},
    {"accuracy": 0.71428, "f1": 1.0},
    "dev.tsv, 7 examples",
    "text-classification",
)


def test_what_is_written_is_read(tmp_path):
    (tmp_path / "README.md").write_text(CARD.text("sentiment", "```python\ncall()\n```"))
    text = (tmp_path / "README.md").read_text()
    assert "| learning_rate | 0.0003 |" in text and "| a/b | x y |" in text and "call()" in text
    found = read_card(tmp_path)
    assert found.pop("written by").startswith("tfnlp ")
    assert found == {
        "title": "sentiment",
        "summary": CARD.summary,
        "base model": "hf://org/small@0123",
        "licence": "apache-2.0 (the base model's)",
        "data": CARD.data[0],
        "measures": "accuracy 0.7143, f1 1 (dev.tsv, 7 examples)",
    }


def test_hugging_face_reads_its_metadata(tmp_path):
    from huggingface_hub import ModelCard

    with card_of_export(CARD), new_folder(tmp_path / "m", ["config.json"], False) as folder:
        with open(f"{folder}/config.json", "w") as file:
            json.dump({"architectures": ["BertForSequenceClassification"]}, file)
    found = ModelCard.load(tmp_path / "m" / "README.md").data
    assert (found.license, found.base_model) == ("apache-2.0", "org/small")
    assert (found.library_name, found.pipeline_tag) == ("transformers", "text-classification")
    measures = {x.metric_type: x.metric_value for x in found.eval_results}
    assert measures == CARD.measures and found.eval_results[0].dataset_name == CARD.measured_on
    assert licence_of(tmp_path / "m") == "apache-2.0"
    assert read_card(tmp_path / "m")["title"] == "m"
    # A folder with such a card is written over, one with anything else is not.
    with card_of_export(CARD), new_folder(tmp_path / "m", ["config.json"], True):
        pass
    assert "from transformers" not in (tmp_path / "m" / "README.md").read_text()


def test_modules_that_are_written_together_have_the_name_of_their_folder(tmp_path):
    with together(tmp_path / "pair", ["encoder"]) as (path,):
        os.makedirs(path)
        assert name_of(path) == "pair"


def test_cards_and_licences_of_anybody(tmp_path):
    assert read_card(tmp_path) == {} and licence_of(tmp_path) is None and licence_of(None) is None
    path = tmp_path / "README.md"
    path.write_bytes(b"# \x1b[31mred\xff\n\n<b>x</b>\n" + b"- **k:** v\n" * 10**5)
    found = read_card(tmp_path)
    assert found["k"] == "v" and len(found) == 2
    assert not any("\x1b" in printable(text) for text in found.values())
    path.write_text("---\nlicense: |\n  anything\n---\n")
    assert licence_of(tmp_path) is None
    path.write_text("license: mit\n")  # not in metadata
    (tmp_path / "config.json").write_text('{"license": "x y; rm"}')
    assert licence_of(tmp_path) is None
    (tmp_path / "config.json").write_text('{"license": "bsd-3-clause"}')
    assert licence_of(tmp_path) == "bsd-3-clause"
    (tmp_path / "config.json").write_text("[" * 100_000)
    assert licence_of(tmp_path) is None
    path.unlink()
    path.mkdir()
    assert read_card(tmp_path) == {}
