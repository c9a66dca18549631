import json
from collections import Counter

import pytest

from tests.data.task_files import CONLLU, CONTEXT, COPA, ask, squad, write
from tests.support import shared_data
from tfnlp.data import Question, TaggedSentence, TaskData, TaskExample
from tfnlp.tasks import TASKS, Answer, Choose, Classify, Similarity, Tag

PAIR = [TaskExample(('A "dog', "An animal."), "yes"), TaskExample(("x", "y, z"), "no")]

TABLES = {
    "a.tsv": 'id\tlabel\tpremise\thypothesis\n1\tyes\tA "dog\t An animal.\n\n2\tno\tx\ty, z\t\n',
    "a.csv": 'label,premise,hypothesis\nyes,"A ""dog",An animal.\n,,\nno,x,"y, z"\n',
    "a.jsonl": '{"label": "yes", "premise": "A \\"dog", "hypothesis": "An animal."}\n\n'
    '{"hypothesis": "y, z", "premise": "x", "label": "no", "more": [1]}\n',
}


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_with_the_columns_that_they_have(tmp_path, name, end):
    path = write(tmp_path, TABLES[name], name + end)
    assert Classify.read(path) == TaskData(PAIR, [])
    one = Classify.read([path], text="hypothesis", label="label").examples
    assert one == [TaskExample((e.segments[1],), e.label) for e in PAIR]


@pytest.mark.parametrize(
    "columns, texts",
    [
        ("sentence sentence1 sentence2 label", (1, 2)),
        ("text hypothesis premise gold_label", (2, 1)),
        ("text_b text_a similarity text", (1, 0)),
        ("text sentence label x", (1,)),
    ],
)
def test_which_columns_come_first(tmp_path, columns, texts):
    names = columns.split()
    fields = [f"{n}" for n in range(4)]
    label = next(n for n in ("label", "gold_label", "score", "similarity", "idx") if n in names)
    path = write(tmp_path, "\t".join(names) + "\n" + "\t".join(fields), "a.tsv")
    want = TaskExample(tuple(fields[n] for n in texts), fields[names.index(label)])
    assert Classify.read(path, label=label).examples == [want]
    if label != "idx":
        assert Classify.read(path).examples == [want]


def test_columns_by_number_and_several_files(tmp_path):
    cola = write(tmp_path, 'gj04\t1\t\tHe "went.\ngj04\t0\t*\tHe goed.\n', "a.tsv")
    rows = write(tmp_path, 'x,0,,"He, too\nran"\n', "b.csv")
    want = [('He "went.', "1"), ("He goed.", "0"), ("He, too\nran", "0")]
    for text, label in ((3, 1), ("3", "1"), (["3"], 1)):
        examples = Classify.read([cola, rows], text=text, label=label).examples
        assert [(*e.segments, e.label) for e in examples] == want


def test_lines_of_label_and_text(tmp_path):
    path = write(tmp_path, "1 a fine film\n\nNUM:date When ?\n", "a.txt")
    texts = [e.segments[0] for e in Classify.read(path, labelled=False).examples]
    assert texts == ["1 a fine film", "NUM:date When ?"]
    want = [TaskExample(("a fine film",), "1"), TaskExample(("When ?",), "NUM:date")]
    assert Classify.read(path).examples == want
    assert Classify.read(path, label=0, labelled=False).examples == want


@pytest.mark.parametrize(
    "lines", ["__label__x a b\n__label__y c\n", "a b __label__x\n\nc\t__label__y\n"]
)
def test_lines_for_fasttext(tmp_path, lines):
    path = write(tmp_path, lines, "a.txt")
    want = [TaskExample(("a b",), "x"), TaskExample(("c",), "y")]
    assert Classify.read(path).examples == want
    assert Classify.read(path, labelled=False).examples == want
    path = write(tmp_path, lines + "__label__x __label__y d\ne\n", "b.txt")
    data = Classify.read(path, skip=True)
    assert data.examples == want
    assert ["has 2 labels" in data.skipped[0], "has 0 labels" in data.skipped[1]] == [True, True]
    texts = [e.segments for e in Classify.read(path, labelled=False).examples]
    assert texts == [("a b",), ("c",), ("d",), ("e",)]


def test_scores(tmp_path):
    path = write(tmp_path, "s\t5.000\tA\tB\ns\t0\tC\tD\tmore\tmore\n", "a.txt")
    want = [TaskExample(("A", "B"), 5.0), TaskExample(("C", "D"), 0.0)]
    assert Similarity.read(path, text=(2, 3), label=1).examples == want
    path = write(tmp_path, '{"text_a": "A", "text_b": "B", "score": 1}', "a.jsonl")
    assert Similarity.read(path).examples == [TaskExample(("A", "B"), 1.0)]


@pytest.mark.parametrize(
    "name, content, columns",
    [
        ("a.jsonl", '{"context": "He", "endings": ["ran", "sat", "ate"], "label": 2}', {}),
        ("a.jsonl", '{"premise": "He", "choices": ["ran", "sat", "ate"], "label": "2"}', {}),
        (
            "a.jsonl",
            '{"x": "He", "a": "ran", "b": "sat", "c": "ate", "y": 2}',
            {"text": ["x", "a", "b", "c"], "label": "y"},
        ),
        ("a.jsonl", '{"x": "He", "a": ["ran", "sat", "ate"], "label": 2}', {"text": ["x", "a"]}),
        ("a.csv", "label,x,a,b,c\n2,He,ran,sat,ate\n", {"text": ["x", "a", "b", "c"]}),
        ("a.tsv", "2\tHe\tran\tsat\tate\n", {"text": [1, 2, 3, 4], "label": 0}),
        ("a.tsv", "o\tHe\tran\tsat\tate\t2\n", {}),
    ],
)
def test_choices(tmp_path, name, content, columns):
    path = write(tmp_path, content, name)
    want = TaskExample(("He",), 2, ("ran", "sat", "ate"))
    assert Choose.read(path, **columns).examples == [want]


def test_copa(tmp_path):
    shorts = "It was hot & dry.", "She planned to run\nalong the beach."
    for name in ("a.xml", "a.xml.gz"):
        assert Choose.read(write(tmp_path, COPA, name)).examples == [
            TaskExample(("The runner wore shorts because",), 0, shorts),
            TaskExample(("It rained so",), 1, ("It was dry.", "It was wet.")),
        ]


CONLL = "-DOCSTART- -X- O\n\n# NN B\n10\u00a0000 CD  I \n\t\nEU NNP O"
TAGGED = [TaggedSentence(("#", "10\u00a0000"), ("B", "I")), TaggedSentence(("EU",), ("O",))]


def test_columns_of_words_and_tags(tmp_path):
    for content in (CONLL, CONLL.replace("CD  I ", "CD I").replace(" ", "\t") + "\n\n \n\n"):
        path = write(tmp_path, content, "a.conll")
        for label in (None, 2, "2"):
            assert Tag.read(path, label=label).examples == TAGGED
        middle = Tag.read(path, label=1).examples
        assert [s.tags for s in middle] == [("NN", "CD"), ("NNP",)]
        assert Tag.read(path, text=1, label=0).examples[1].words == ("NNP",)


IOB1 = {  # by hand: Ramshaw & Marcus 1995, section 4
    ("O", "I-A", "I-A", "B-A", "I-B", "O"): ("O", "B-A", "I-A", "B-A", "B-B", "O"),
    ("I-A", "I-B", "B-B", "I-B"): ("B-A", "B-B", "B-B", "I-B"),
    ("I-A", "O", "I-A"): ("B-A", "O", "B-A"),
}


def conll(sentences):
    rows = ["".join(f"w{i} {tag}\n" for i, tag in enumerate(tags)) for tags in sentences]
    return "\n".join(rows)


def test_tags_of_entities_are_read_as_bio(tmp_path):
    data = Tag.read(write(tmp_path, conll(IOB1), "iob1.txt"))
    assert [e.tags for e in data.examples] == list(IOB1.values())
    assert data.scheme == "IOB1 tags, read as BIO: 6 of 8 entities begin with I-"
    rows = [(["w"] * len(tags), list(tags)) for tags in IOB1]
    found = Tag.read(rows)
    assert found.scheme == data.scheme
    assert [e.tags for e in found.examples] == list(IOB1.values())
    assert Tag.read(found.examples).scheme == "BIO tags of 8 entities"
    data = Tag.read(write(tmp_path, conll(IOB1.values()), "bio.txt"))
    assert [e.tags for e in data.examples] == list(IOB1.values())
    assert data.scheme == "BIO tags of 8 entities"
    # A file of both, and one in which nothing says which it is: it means the same in both.
    data = Tag.read(write(tmp_path, conll([*IOB1, ("B-A", "O")]), "both.txt"))
    assert data.scheme.startswith("BIO and IOB1 tags mixed, read as BIO: 6 of 9 ent")
    assert data.examples[-1].tags == ("B-A", "O")
    for tags in (("O", "O"), ("NN", "I-A"), ("O", "B-A", "T-A"), ("B", "I")):
        data = Tag.read(write(tmp_path, conll([tags]), "other.txt"))
        assert data.examples[0].tags == tags and data.scheme is None


def test_words_and_tags_in_json(tmp_path):
    rows = '{"tokens": ["#", "10\u00a0000"], "ner_tags": ["B", "I"], "id": 4}\n'
    path = write(tmp_path, rows + '{"tokens": ["EU"], "ner_tags": ["O"]}\n', "a.jsonl")
    assert Tag.read(path).examples == TAGGED
    path = write(tmp_path, '{"w": ["a", "b"], "t": [3, 0]}', "b.jsonl")
    want = TaggedSentence(("a", "b"), ("3", "0"))
    assert Tag.read(path, text="w", label="t").examples == [want]


def test_conllu(tmp_path):
    for name in ("a.conllu", "a.conllu.gz"):
        path = write(tmp_path, CONLLU, name)
        for label, tags in {
            None: [("AUX", "PART"), ("PUNCT",)],
            "upos": [("AUX", "PART"), ("PUNCT",)],
            "xpos": [("VB", "RB"), ("NFP",)],
            4: [("VB", "RB"), ("NFP",)],
            "5": [("_", "Polarity=Neg"), ("_",)],
        }.items():
            found = Tag.read(path, label=label).examples
            assert found == [
                TaggedSentence(("do", "n't"), tags[0]),
                TaggedSentence(("_",), tags[1]),
            ]


def test_squad(tmp_path):
    path = write(tmp_path, squad(ask()), "a.json")
    want = Question("q1", "Who?", CONTEXT, (("cat", 4), ("cat ran", 15)))
    assert Answer.read(path) == TaskData([want], [])
    plausible = [{"answer_start": 999, "text": "dog"}]
    second = squad(
        ask(is_impossible=False),
        ask("q2", (), is_impossible=True, plausible_answers=plausible),
        ask("q3", ()),
        version="v2.0",
    )
    found = Answer.read(write(tmp_path, second, "b.json.gz")).examples
    assert found[0] == want and [(q.id, q.answers) for q in found[1:]] == [("q2", ()), ("q3", ())]


def test_squad_without_the_outer_object_and_with_numbers_as_ids(tmp_path):
    articles = json.loads(squad(ask(7), ask("q2", ())))["data"]
    first, second = Answer.read(write(tmp_path, json.dumps(articles), "a.json")).examples
    assert first == Question("7", "Who?", CONTEXT, (("cat", 4), ("cat ran", 15)))
    assert (second.id, second.answers) == ("q2", ())
    with pytest.raises(ValueError, match="question '7': another question has the same id"):
        Answer.read(write(tmp_path, squad(ask(7), ask("7")), "a.json"))


# ner_dataset.csv of Kaggle, with a quotation mark as a word.
KAGGLE = '''Sentence #,Word,POS,Tag
Sentence: 1,London,NNP,B-geo
,said,VBD,O
,"""",``,O
,"1,000",CD,O
Sentence: 2,Iraq,NNP,B-geo
'''


@pytest.mark.parametrize("filled", [False, True])
def test_a_table_with_a_row_for_each_word(filled, tmp_path):
    content = KAGGLE.replace("\n,", "\nSentence: 1,") if filled else KAGGLE
    path = write(tmp_path, content, "a.csv")
    words = [("London", "said", '"', "1,000"), ("Iraq",)]
    tags = [("B-geo", "O", "O", "O"), ("B-geo",)]
    want = [TaggedSentence(*pair) for pair in zip(words, tags, strict=True)]
    assert Tag.read(path).examples == want
    assert [e.tags for e in Tag.read(path, label="POS").examples][1] == ("NNP",)
    untagged = "\n".join(line.rsplit(",", 2)[0] for line in content.splitlines())
    rows = Tag.read(write(tmp_path, untagged, "b.csv"), labelled=False).examples
    assert rows == [TaggedSentence(row, None) for row in words]
    with pytest.raises(ValueError, match="no column says where sentences begin"):
        Tag.read(write(tmp_path, "word,tag\na,O\n", "d.csv"))
    lacking = write(tmp_path, content.replace(",said", ","), "c.csv")
    with pytest.raises(ValueError, match="c.csv, line 2: a word is empty"):
        Tag.read(lacking)
    assert Tag.read(lacking, skip=True).examples == want[1:]


UNLABELLED = [
    ("classify", "a.tsv", "sentence\nA b.\n", {}, TaskExample(("A b.",), None)),
    ("classify", "a.tsv", "x\tA b.\n", {"text": 1}, TaskExample(("A b.",), None)),
    ("classify", "a.tsv", "sentence\tlabel\nA\t-\n", {}, TaskExample(("A",), None)),
    ("classify", "a.csv", "text,label\nA,\n", {}, TaskExample(("A",), None)),
    ("similarity", "a.jsonl", '{"text": "A", "label": null}', {}, TaskExample(("A",), None)),
    ("choose", "a", "o\tA\tb\tc\t\n", {}, TaskExample(("A",), None, ("b", "c"))),
    ("choose", "a.jsonl", '{"context": "A", "choices": ["b", "c"]}', {},
     TaskExample(("A",), None, ("b", "c"))),
    ("choose", "a.xml", '<c><item asks-for="cause"><p>A.</p><a1>b</a1><a2>c</a2></item></c>', {},
     TaskExample(("A because",), None, ("b", "c"))),
    ("tag", "a.conll", "A\nb\n", {}, TaggedSentence(("A", "b"), None)),
    ("tag", "a.conll", "A\tO\nb\tO\n", {}, TaggedSentence(("A", "b"), ("O", "O"))),
    ("tag", "a.conllu", "1\tA" + "\t_" * 8, {}, TaggedSentence(("A",), None)),
    ("tag", "a.jsonl", '{"words": ["A"]}', {}, TaggedSentence(("A",), None)),
    ("answer", "a.json", '{"data": [{"paragraphs": [{"context": "A", "qas": '
     '[{"id": "1", "question": "b"}]}]}]}', {}, Question("1", "b", "A", ())),
]  # fmt: skip


@pytest.mark.parametrize("task, name, content, columns, want", UNLABELLED)
def test_without_labels(tmp_path, task, name, content, columns, want):
    path = write(tmp_path, content, name)
    assert TASKS[task].read(path, labelled=False, **columns).examples == [want]
    if (getattr(want, "label", None) or getattr(want, "tags", None)) is None:
        with pytest.raises(ValueError):
            TASKS[task].read(path, **columns)


def test_rows_to_leave_out(tmp_path):
    content = "sentence\tlabel\nA\tyes\nB\t-\nC\tno\n"
    path = write(tmp_path, content, "a.tsv")
    data = Classify.read(path)
    assert [e.label for e in data.examples] == ["yes", "no"]
    assert data.skipped == [f"{path}, line 3: its label '-' is one to leave out"]
    assert len(Classify.read(path, drop=()).examples) == 3
    assert len(Classify.read(path, labelled=False).examples) == 3
    assert len(Classify.read(path, drop=("yes", "no")).examples) == 1


@pytest.mark.slow
def test_english_web_treebank():
    dev = Tag.read(shared_data("tag/ud_ewt/en_ewt-ud-dev.conllu")).examples
    train = Tag.read(shared_data("tag/ud_ewt/en_ewt-ud-train.conllu.gz")).examples
    assert (len(train), len(dev)) == (12544, 2001)  # as the treebank's stats.xml has it
    assert sum(len(s.words) for s in train) == 204577
    assert len({tag for s in train for tag in s.tags}) == 17  # universal tags
    assert dev[0].words == ("From", "the", "AP", "comes", "this", "story", ":")
    assert dev[0].tags == ("ADP", "DET", "PROPN", "VERB", "DET", "NOUN", "PUNCT")


# Rows and labels counted with `cut`, `sort` and `uniq -c`.
@pytest.mark.parametrize(
    "task, name, rows, labels",
    [
        ("classify", "cls/sst2/train.txt", 6920, {"1": 3610, "0": 3310}),
        ("classify", "cls/sst2_glue/dev.tsv", 6735, {"1": 3741, "0": 2994}),
        ("classify", "pair/rte/train.tsv", 2490, {"entailment": 1249, "not_entailment": 1241}),
        ("classify", "pair/snli/dev_raw.jsonl", 9842,
         {"entailment": 3329, "contradiction": 3278, "neutral": 3235}),
        ("choose", "mc/copa/copa-dev.xml", 500, {0: 250, 1: 250}),
        ("choose", "mc/codah/fold_0_train.tsv", 1665, {3: 433, 0: 426, 2: 404, 1: 402}),
    ],
)  # fmt: skip
def test_published_files_are_read_whole(task, name, rows, labels):
    examples = TASKS[task].read(shared_data(name)).examples
    assert len(examples) == rows and Counter(e.label for e in examples) == labels
