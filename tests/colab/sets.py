"""Small sets under the names of TFDS, prepared offline, for notebooks at toy size.

Each function writes one set into a folder; the kernel finds it there by TFDS_DATA_DIR.
"""

import numpy as np

from tests.data.tfds_sets import prepare
from tfnlp import data

GOOD = ["lovely", "funny", "touching", "clever", "warm"]
BAD = ["boring", "clumsy", "tedious", "empty", "cold"]
THINGS = ["film", "story", "comedy", "plot", "cast", "drama", "ending", "script"]
NOUNS = ["robin", "gardener", "wall", "rose", "girl", "key", "doctor", "door"]
VERBS = ["sang", "opened", "waited", "found", "moved", "closed"]
ADJECTIVES = ["old", "yellow", "quiet", "hidden", "green"]


def glue(folder):
    """Write glue/sst2: 1,200 phrases whose adjective decides; 40 to measure on."""
    import tensorflow_datasets as tfds

    features = {
        "sentence": tfds.features.Text(),
        "label": tfds.features.ClassLabel(names=["negative", "positive"]),
        "idx": tfds.features.Scalar(np.int32),
    }
    examples = {"train": list(sst2(1200, 0)), "validation": list(sst2(40, 1))}
    prepare(folder, "Glue", features, examples, "sst2", "2.0.0")


def sst2(count, seed):
    """Yield rows of phrases whose adjective decides: 0 negative, 1 positive."""
    random = np.random.default_rng(seed)
    for number in range(count):
        label = int(random.integers(2))
        word, thing = random.choice((BAD, GOOD)[label]), random.choice(THINGS)
        shape = ("a {} {} .", "the {1} is {0} .", "such a {} {}")[number % 3]
        yield {"sentence": shape.format(word, thing), "label": label, "idx": number}


def wikipedia(folder):
    """Write wikipedia/20230601.simple: 60 articles, which are paragraphs of a novel."""
    import tensorflow_datasets as tfds

    features = {"title": tfds.features.Text(), "text": tfds.features.Text()}
    articles = [{"title": f"Part {n}", "text": text} for n, text in enumerate(_parts(60, 8))]
    prepare(folder, "Wikipedia", features, {"train": articles}, "20230601.simple", "1.0.0")


def tiny_shakespeare(folder):
    """Write tiny_shakespeare: its three texts, which are parts of a novel, as dialogue is set."""
    import tensorflow_datasets as tfds

    parts = ["\n\n".join(f"MARY:\n{p}" for p in part.split("\n\n")) for part in _parts(12, 30)]
    texts = ("\n\n".join(parts[:10]), parts[10], parts[11])
    names = ("train", "validation", "test")
    examples = {name: [{"text": text}] for name, text in zip(names, texts, strict=True)}
    prepare(folder, "TinyShakespeare", {"text": tfds.features.Text()}, examples)


def universal_dependencies(folder):
    """Write universal_dependencies/en_ewt: 300 sentences with tags, and 40 to measure on.

    The dev part has words that the other lacks, whose ending says what they are.
    """
    from tensorflow_datasets.core.dataset_builders.conll import conllu_dataset_builder_utils as ud

    def rows(count, seed, unseen=0):
        random = np.random.default_rng(seed)
        for number in range(count):
            noun, verb = random.choice(NOUNS), random.choice(VERBS)
            pairs = [("The", "DET"), (noun, "NOUN"), (verb, "VERB"), (".", "PUNCT")]
            if random.random() < 0.6:
                pairs.insert(1, (random.choice(ADJECTIVES), "ADJ"))
            if number % 3 == 0:
                pairs.insert(-1, (random.choice(["slowly", "quickly", "sadly"]), "ADV"))
            other = [("the", "DET"), (random.choice(NOUNS), "NOUN")]
            if number % 5 == 1:  # one word in two senses
                pairs[-1:-1] = [("like", "ADP"), *other]
            elif number % 5 == 2:
                pairs[-2:-1] = [("would", "AUX"), ("like", "VERB"), *other]
            if number < unseen:
                pairs.insert(-1, ("kindly", "ADV"))
            words, tags = zip(*pairs, strict=True)
            others = ("lemmas", "xpos", "feats", "head", "deprel", "deps", "misc")
            yield {
                **{name: ["_"] * len(words) for name in others},
                **{"idx": str(number), "text": " ".join(words), "tokens": words, "upos": tags},
            }

    features = dict(ud.UNIVERSAL_DEPENDENCIES_FEATURES)
    examples = {"train": list(rows(300, 0)), "dev": list(rows(40, 1, unseen=10))}
    prepare(folder, "UniversalDependencies", features, examples, "en_ewt", "1.0.1")


def _parts(count, paragraphs):
    """Return texts of so many paragraphs of the novel, with blank lines between."""
    chapters = data.read_documents("book:the_secret_garden", paragraphs=True)
    flat = [" ".join(p.split()) for chapter in chapters for p in chapter]
    return ["\n\n".join(flat[i * paragraphs : (i + 1) * paragraphs]) for i in range(count)]
