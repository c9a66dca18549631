"""Files and rows of semantic roles."""

import json

import pytest

from tests.data.task_files import write
from tfnlp.data import RoleSentence
from tfnlp.tasks import Roles


def conllu(*words):
    """Lines of CoNLL-U: (id, form, further columns)."""
    lines = [[ID, form, *"_" * 8, *more] for ID, form, *more in words]
    return "# text = a\n" + "".join("\t".join(line) + "\n" for line in lines) + "\n"


SOLD = conllu(
    ("1", "She", "_", "ARG0", "_"),
    ("2-3", "sold"),
    ("2", "sold", "sell.01", "V", "_"),
    ("3", "using", "use.01", "ARGM-MNR", "V"),
    ("4", "it", "_", "_", "ARG1"),
).replace("2-3\tsold", "2-3\tsold" + "\t_" * 3)
NONE = conllu(("1", "Hm", "_"), ("2", ".", "_", ""))  # as in Universal Propositions
WORDS = ("She", "sold", "using", "it")
WANT = [
    RoleSentence(WORDS, ("ARG0", "V", "ARGM-MNR", "O"), 1),
    RoleSentence(WORDS, ("O", "O", "V", "ARG1"), 2),
]


def test_one_example_for_each_predicate(tmp_path):
    content = SOLD + NONE + conllu(("1", "No", ""), ("2", "way", ""))
    for end in ("\n", "\r\n"):
        for name in ("a.conllu", "a.conllu.gz"):
            path = write(tmp_path, content.replace("\n", end), name)
            assert Roles.read(path).examples == WANT
    bare = conllu(("1", "She", "_"), ("2", "sold", "sell.01"), ("3", "using", "use.01"))
    found = Roles.read(write(tmp_path, bare, "b.conllu"), labelled=False).examples
    assert found == [RoleSentence(WORDS[:3], None, 1), RoleSentence(WORDS[:3], None, 2)]


@pytest.mark.parametrize(
    "content, why",
    [
        (conllu(("1", "a", "b.01", "V"), ("2", "b", "_")), "line 3: expected 1 columns of roles"),
        (conllu(("1", "a", "b.01")), "line 2: expected 1 columns of roles"),
        (conllu(("1", "a")), "line 2: expected the ten columns and 1 or more"),
        (conllu(("x", "a", "_")), "'x' is not an ID"),
        (NONE, "no examples"),
    ],
)
def test_wrong_columns_of_roles(content, why, tmp_path):
    with pytest.raises(ValueError, match=why):
        Roles.read(write(tmp_path, content, "a.conllu"))
    if "no examples" not in why:
        data = Roles.read(write(tmp_path, SOLD + content, "a.conllu"), skip=True)
        assert data.examples == WANT and len(data.skipped) == 1


def test_other_files_of_roles(tmp_path):
    with pytest.raises(ValueError, match="a.conll"):
        Roles.read(write(tmp_path, "She ARG0\n", "a.conll"))
    with pytest.raises(ValueError, match="text and label"):
        Roles.read(write(tmp_path, SOLD, "a.conllu"), label=3)


def test_rows_of_roles(tmp_path):
    dicts = [{"words": list(e.words), "predicate": e.predicate, "tags": list(e.tags)} for e in WANT]
    path = write(tmp_path, "".join(json.dumps(row) + "\n" for row in dicts), "a.jsonl")
    tuples = [(list(e.words), e.predicate, list(e.tags)) for e in WANT]
    for rows in (path, dicts, tuples, WANT):
        assert Roles.read(rows).examples == WANT
    for row in ("She sold it.", 1), {"text": "She sold it.", "predicate": 1}:
        unlabelled = Roles.read([row], labelled=False).examples
        words = ("She", "sold", "it", ".")
        assert unlabelled == [RoleSentence(words, None, 1, text="She sold it.")]
    spans = {"text": "She sold it.", "predicate": 1, "spans": [[0, 3, "A0"], [9, 11, "A1"]]}
    (found,) = Roles.read([spans]).examples
    assert found.tags == ("B-A0", "O", "B-A1", "O") and found.text == spans["text"]
    # Roles of spans in another scheme than BIO are read as BIO.
    data = Roles.read([(["a", "b", "c"], 0, ["S-V", "B-A1", "E-A1"])])
    assert data.examples[0].tags == ("B-V", "B-A1", "I-A1") and data.scheme.startswith("BIOES")


@pytest.mark.parametrize(
    "predicate, why", [(4, "the words are 0 to 3"), (-1, "0 to 3"), ("sold", "must be the number")]
)
def test_wrong_predicates(predicate, why):
    row = (list(WORDS), predicate, list(WANT[0].tags))
    with pytest.raises(ValueError, match=f"row 1: .*{why}"):
        Roles.read([(list(WORDS), 1, list(WANT[0].tags)), row])
