import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.data.synthetic import WordTokenizer, make_corpus
from tests.support import shared_data
from tfnlp.data import BertPairs, TokenizedCorpus, read_documents


def make_pairs(document_sizes=(40,) * 30, longest=40, **arguments):
    corpus, tokenizer = make_corpus(document_sizes, longest=longest)
    return BertPairs(corpus, tokenizer, **{"batch_size": 8, "seq_length": 64, **arguments})


def as_numpy(batch):
    return {key: value.numpy() for key, value in batch.items()}


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for key, value in left.items():
        np.testing.assert_array_equal(value, right[key], err_msg=key)


def unmasked(batch):
    """Token ids of a batch with the answers filled in where they were masked."""
    ids = batch["input_word_ids"].copy()
    for row, position, answer, weight in zip(
        ids,
        batch["masked_lm_positions"],
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
        strict=True,
    ):
        row[position[weight > 0]] = answer[weight > 0]
    return ids


def places(corpus, token):
    """(document, sentence) of a position in the corpus."""
    sentence = np.searchsorted(corpus.sentence_starts, token, "right") - 1
    return np.searchsorted(corpus.document_starts, sentence, "right") - 1, sentence


# ---- batches


def test_batch_shapes_and_dtypes():
    pairs = make_pairs(max_predictions=7)
    shapes = {
        "input_word_ids": ([8, 64], tf.int32),
        "input_mask": ([8, 64], tf.int32),
        "input_type_ids": ([8, 64], tf.int32),
        "masked_lm_positions": ([8, 7], tf.int32),
        "masked_lm_ids": ([8, 7], tf.int32),
        "masked_lm_weights": ([8, 7], tf.float32),
        "next_sentence_labels": ([8], tf.int32),
    }
    batch = pairs.batch(0)
    assert {k: (v.shape.as_list(), v.dtype) for k, v in batch.items()} == shapes
    spec = pairs.dataset().element_spec
    assert {k: (v.shape.as_list(), v.dtype) for k, v in spec.items()} == shapes


def test_batches_are_the_planned_pairs_packed():
    pairs = make_pairs()
    cls, sep, pad = 2, 3, 0
    for step in range(pairs.steps_per_epoch):
        batch = as_numpy(pairs.batch(step))
        rows = pairs.plan(0)[step * 8 : step * 8 + 8]
        for i, (ids, row) in enumerate(zip(unmasked(batch), rows, strict=True)):
            a = pairs.corpus.tokens[row[0] : row[1]].tolist()
            b = pairs.corpus.tokens[row[2] : row[3]].tolist()
            assert a and b
            tail = 64 - len(a) - len(b) - 3
            assert ids.tolist() == [cls, *a, sep, *b, sep] + [pad] * tail
            assert batch["input_mask"][i].tolist() == [1] * (64 - tail) + [0] * tail
            types = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * tail
            assert batch["input_type_ids"][i].tolist() == types
            assert batch["next_sentence_labels"][i] == row[4]


def test_masks_fall_on_tokens_at_the_rate_and_differ_between_steps_and_epochs():
    pairs = make_pairs(max_predictions=20)
    special, masks, tokens, seen = {0, 2, 3}, 0, 0, set()
    steps = pairs.steps_per_epoch
    for step in range(2 * steps):
        batch = as_numpy(pairs.batch(step))
        used = batch["masked_lm_weights"] > 0
        assert not special & set(batch["masked_lm_ids"][used].tolist())
        assert not batch["masked_lm_positions"][~used].any()
        for row in range(8):
            chosen = batch["masked_lm_positions"][row][used[row]]
            assert len(set(chosen.tolist())) == len(chosen)
            # [MASK] may stand there, but no other special token, by chance or otherwise.
            assert batch["input_word_ids"][row][chosen].min() >= 4
        count = batch["input_mask"].sum() - 3 * 8
        masks, tokens = masks + used.sum(), tokens + count
        seen.add(batch["masked_lm_positions"].tobytes())
    assert len(seen) == 2 * steps
    assert abs(masks / tokens - 0.15) < 0.01


def test_mask_rate_and_max_predictions():
    few = as_numpy(make_pairs(max_predictions=3, mask_rate=0.5).batch(0))
    assert (few["masked_lm_weights"].sum(axis=1) == 3).all()
    many = as_numpy(make_pairs(max_predictions=60, mask_rate=0.5).batch(0))
    lengths = many["input_mask"].sum(axis=1) - 3
    assert (abs(many["masked_lm_weights"].sum(axis=1) - lengths / 2) <= 1).all()


def test_whole_words_are_masked_together():
    corpus, _ = make_corpus([40] * 30)
    # Words of three pieces within the corpus: the ids 5, 6, 7 make one word, 8, 9, 10 the next.
    is_continuation = np.arange(5 + corpus.num_tokens) % 3 != 2
    is_continuation[:5] = False
    tokenizer = WordTokenizer(vocab_size=len(is_continuation), is_continuation=is_continuation)
    torn = {}
    for whole_word in (True, False):
        pairs = BertPairs(
            corpus,
            tokenizer,
            batch_size=32,
            seq_length=64,
            max_predictions=40,
            whole_word=whole_word,
        )
        batch = as_numpy(pairs.batch(0))
        torn[whole_word] = 0
        for i, ids in enumerate(unmasked(batch)):
            used = batch["masked_lm_weights"][i] > 0
            chosen = set(batch["masked_lm_positions"][i][used].tolist())
            # A and B are runs of the corpus, so neighbours of one word have ids of one word.
            for left in range(63):
                pieces = ids[left], ids[left + 1]
                if pieces[1] == pieces[0] + 1 and is_continuation[pieces[1]] and pieces[0] >= 5:
                    torn[whole_word] += (left in chosen) != (left + 1 in chosen)
    assert torn[True] == 0 < torn[False]


# ---- position and restart


def test_dataset_is_batches_from_any_step():
    pairs = make_pairs(batch_size=16)
    steps = pairs.steps_per_epoch
    start = steps - 3  # runs across the end of the epoch
    for n, element in enumerate(pairs.dataset(start).take(6)):
        assert_equal(as_numpy(element), as_numpy(pairs.batch(start + n)))


def test_batches_do_not_depend_on_what_was_asked_before():
    pairs = make_pairs()
    steps = [0, 5, 3 * pairs.steps_per_epoch + 1, 5, pairs.steps_per_epoch, 1]
    forward = [as_numpy(pairs.batch(step)) for step in steps]
    fresh = make_pairs()
    backward = [as_numpy(fresh.batch(step)) for step in reversed(steps)][::-1]
    for left, right in zip(forward, backward, strict=True):
        assert_equal(left, right)
    assert_equal(forward[1], forward[3])


def test_seeds_and_epochs_differ():
    pairs, other = make_pairs(), make_pairs(seed=1)
    assert not np.array_equal(pairs.plan(0), pairs.plan(1))
    rows = set(map(tuple, pairs.plan(0).tolist()))
    assert len(rows & set(map(tuple, pairs.plan(1).tolist()))) < 0.1 * len(rows)
    size = min(len(pairs.plan(0)), len(other.plan(0)))
    assert not np.array_equal(pairs.plan(0)[:size], other.plan(0)[:size])
    # The masks too: the same rows are masked differently.
    words = [as_numpy(p._packed(pairs._rows(0), 0))["input_word_ids"] for p in (pairs, other)]
    assert not np.array_equal(*words)


def test_every_epoch_has_the_same_number_of_examples():
    pairs = make_pairs()
    assert pairs.steps_per_epoch == pairs.num_examples // 8
    walks = {len(pairs._draw(epoch)) for epoch in range(8)}
    assert len(walks) > 1  # or else there would be nothing to level
    assert {pairs.plan(epoch).shape for epoch in range(8)} == {(pairs.num_examples, 6)}


def test_an_epoch_shows_every_pair_once():
    pairs = make_pairs(batch_size=16)
    seen = np.concatenate([pairs._rows(step) for step in range(pairs.steps_per_epoch)])
    np.testing.assert_array_equal(seen, pairs.plan(0)[: len(seen)])
    assert pairs.num_examples - len(seen) < 16


def test_a_corpus_smaller_than_a_batch_goes_round():
    pairs = make_pairs([3, 3], batch_size=64)
    assert pairs.num_examples < 64 and pairs.steps_per_epoch == 1
    labels = as_numpy(pairs.batch(0))["next_sentence_labels"]
    np.testing.assert_array_equal(labels, np.resize(pairs.plan(0)[:, 4], 64))
    assert not np.array_equal(pairs._rows(0), pairs._rows(1))  # the next step is the next epoch


def test_evaluation_batches_are_always_the_same():
    pairs = make_pairs()
    batches = [as_numpy(batch) for batch in pairs.evaluation_batches(3)]
    assert len(batches) == 3
    for step, batch in enumerate(pairs.evaluation_batches(3)):
        assert_equal(as_numpy(batch), batches[step])
        assert_equal(as_numpy(pairs.batch(step)), batches[step])
    everything = pairs.evaluation_batches(10**6)
    assert everything.cardinality().numpy() == pairs.steps_per_epoch
    with pytest.raises(ValueError, match="max_batches must be 1 or more; got 0"):
        pairs.evaluation_batches(0)


# ---- plans


@pytest.mark.parametrize("longest", [5, 40, 150])
@pytest.mark.parametrize("seq_length", [8, 64])
def test_b_follows_a_or_comes_from_another_document(longest, seq_length):
    pairs = make_pairs(longest=longest, seq_length=seq_length, max_predictions=8)
    rows = pairs.plan(0)
    a_start, a_end, b_start, b_end, is_random, target = rows.T
    assert set(is_random.tolist()) == {0, 1}
    room = seq_length - 3
    length_a, length_b = a_end - a_start, b_end - b_start
    assert (length_a > 0).all() and (length_b > 0).all()
    assert (length_a + length_b <= room).all()
    assert (target <= room).all() and (target >= 2).all()
    # Either part lies within one document.
    document_a, sentence_a = places(pairs.corpus, a_start)
    document_b, sentence_b = places(pairs.corpus, b_start)
    last_document_a, last_sentence_a = places(pairs.corpus, a_end - 1)
    last_document_b, last_sentence_b = places(pairs.corpus, b_end - 1)
    np.testing.assert_array_equal(document_a, last_document_a)
    np.testing.assert_array_equal(document_b, last_document_b)
    np.testing.assert_array_equal(document_a != document_b, is_random == 1)
    # A true B begins where A ended, unless the ends that met there were cut off.
    follows, cut = is_random == 0, length_a + length_b == room
    gap = b_start - a_end
    assert (gap[follows] >= 0).all()
    assert (gap[follows & ~cut] == 0).all()
    # What was not cut is made of whole sentences.
    starts = pairs.corpus.sentence_starts
    whole = rows[~cut]
    assert np.isin(whole[:, :4], starts).all()
    if longest == 40 and seq_length == 64:  # the conditions above were not empty
        assert (~cut).sum() > 20 and (follows & ~cut).sum() > 10 and (gap[follows] > 0).sum() > 20


def test_true_next_sentences_touch_before_cutting():
    # Every sentence has 10 tokens and half of the room is 30, so a cut never reaches the border
    # sentences: A's last and B's first sentence must be neighbours.
    tokens = np.arange(12_000, dtype=np.int32) + 5
    corpus = TokenizedCorpus(tokens, np.arange(1201) * 10, np.arange(31) * 40)
    tokenizer = WordTokenizer(vocab_size=12_005)
    pairs = BertPairs(corpus, tokenizer, batch_size=8, seq_length=64)
    rows = pairs.plan(0)
    true = rows[rows[:, 4] == 0]
    np.testing.assert_array_equal((true[:, 1] - 1) // 10 + 1, true[:, 2] // 10)


def test_labels_are_balanced_also_with_lone_sentences():
    # Sentences about as long as the room: most chunks are lone, where the reference code would
    # make nearly every pair random. In documents of two, the second is often left alone.
    for sizes, longest in (([60] * 60, 20), ([60] * 60, 120), ([2] * 900, 400)):
        pairs = make_pairs(sizes, longest=longest)
        for epoch in range(3):
            labels = pairs.plan(epoch)[:, 4]
            deviation = abs(labels.mean() - 0.5) / (0.5 / np.sqrt(len(labels)))
            assert len(labels) > 500 and deviation < 4


def test_plans_are_shuffled():
    pairs = make_pairs([60] * 60)
    place = pairs.plan(0)[:, 0]
    assert len(place) > 1000
    assert abs(np.corrcoef(place, np.arange(len(place)))[0, 1]) < 0.1
    assert abs(np.corrcoef(place[1:], place[:-1])[0, 1]) < 0.1


def test_documents_of_one_sentence_are_random():
    pairs = make_pairs([1] * 50)
    assert (pairs.plan(0)[:, 4] == 1).all()
    assert len(pairs.plan(0)) == 50


def test_short_targets():
    pairs = make_pairs([60] * 100)
    for probability, bounds in ((0.1, (0.08, 0.13)), (0.0, (0, 0)), (1.0, (0.95, 1))):
        pairs = make_pairs([60] * 100, short_seq_prob=probability)
        target = pairs.plan(0)[:, 5]
        assert len(target) > 1000
        assert bounds[0] <= (target < 61).mean() <= bounds[1]
        if probability == 1:  # uniform from 2 to 61
            assert set(target.tolist()) == set(range(2, 62))
            assert abs(target.mean() - 31.5) < 1.5


def test_every_sentence_of_every_document_is_visited():
    pairs = make_pairs([1, 2, 3, 40, 5, 60, 1, 2] * 3, longest=10)
    rows = pairs._walk(np.random.default_rng(0))
    seen = np.zeros(pairs.corpus.num_tokens, int)
    for a_start, a_end, b_start, b_end, is_random, _ in rows.tolist():
        seen[a_start:a_end] += 1
        if not is_random:
            seen[b_start:b_end] += 1
    # Every token once; a lone last sentence may bring the one before it along again.
    assert (seen >= 1).all() and (seen == 1).mean() > 0.9


def test_random_partners_come_from_everywhere():
    pairs = make_pairs([10] * 40)
    partners = np.concatenate([pairs.plan(e)[pairs.plan(e)[:, 4] == 1] for e in range(10)])
    documents, sentences = places(pairs.corpus, partners[:, 2])
    assert set(documents.tolist()) == set(range(40))
    # n draws leave a sentence out with probability (1 - 1/400)^n.
    expected = 400 * (1 - (1 - 1 / 400) ** len(partners))
    assert abs(len(set(sentences.tolist())) - expected) < 25


def test_random_partners_fill_the_room():
    pairs = make_pairs([200] * 20, longest=10, short_seq_prob=0.0)
    rows = pairs.plan(0)
    random = rows[rows[:, 4] == 1]
    length = (random[:, 1] - random[:, 0]) + (random[:, 3] - random[:, 2])
    # Less only where the partner's document or A's own ended.
    assert (length == 61).mean() > 0.9


def test_cutting_equals_the_loop_of_the_reference_code():
    pairs = make_pairs(seq_length=20)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 60, [2000, 2])
    rows = np.zeros([2000, 6], np.int64)
    rows[:, 1] = lengths[:, 0]
    rows[:, 2] = 100
    rows[:, 3] = 100 + lengths[:, 1]
    fitted = pairs._fit(rows.copy(), rng)
    for (a, b), row in zip(lengths.tolist(), fitted.tolist(), strict=True):
        while a + b > 17:
            if a > b:
                a -= 1
            else:
                b -= 1
        assert (row[1] - row[0], row[3] - row[2]) == (a, b)
    # A fair coin decides the end from which each token goes.
    cut = lengths[:, 0] - (fitted[:, 1] - fitted[:, 0])
    front = fitted[:, 0].sum() / cut.sum()
    assert abs(front - 0.5) < 0.01
    assert (fitted[:, 1] <= rows[:, 1]).all() and (fitted[:, 0] >= 0).all()


# ---- one document


def test_single_document_takes_partners_from_far_away():
    with pytest.warns(UserWarning, match="one document") as caught:
        pairs = make_pairs([800], longest=20)
        for step in range(3 * pairs.steps_per_epoch):
            pairs.batch(step)
    assert len([w for w in caught if w.category is UserWarning]) == 1
    rows = np.concatenate([pairs.plan(epoch) for epoch in range(4)])
    random = rows[rows[:, 4] == 1]
    assert abs(len(random) / len(rows) - 0.5) < 4 * 0.5 / np.sqrt(len(rows))
    _, a = places(pairs.corpus, random[:, 1] - 1)
    _, b = places(pairs.corpus, random[:, 2])
    distance = (b - a) % 800
    assert distance.min() > 180 and distance.max() < 620


@pytest.mark.parametrize("size", [2, 3, 4, 5, 9])
def test_tiny_single_document_never_lies(size):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = make_pairs([size], longest=9, batch_size=2)
    for epoch in range(50):
        for a_start, a_end, b_start, b_end, is_random, _ in pairs._draw(epoch).tolist():
            assert a_start < a_end and b_start < b_end
            assert b_start >= a_end or b_end <= a_start  # no overlap
            assert is_random == (b_start != a_end)
    assert (size == 2) == all((pairs.plan(e)[:, 4] == 0).all() for e in range(20))


def test_no_warning_for_two_documents():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pairs([5, 5])


# ---- errors and real text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size must be 1 or more; got 0"),
        ({"seq_length": 7}, "seq_length must be 8 or more"),
        ({"max_predictions": 0}, r"max_predictions must lie in \[1, seq_length=64\]; got 0"),
        ({"max_predictions": 65}, "max_predictions must lie in"),
        ({"mask_rate": 0.0}, "mask_rate must lie in"),
        ({"mask_rate": 1.5}, "mask_rate must lie in"),
        ({"short_seq_prob": -0.1}, "short_seq_prob must lie in"),
        ({"short_seq_prob": 1.1}, "short_seq_prob must lie in"),
        ({"seed": -1}, "seed must lie in"),
        ({"seed": 2**31}, "seed must lie in"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_pairs(**arguments)


def test_another_tokenizer_is_noticed():
    corpus, _ = make_corpus([5, 5])
    with pytest.raises(ValueError, match="corpus holds the id .* tokenizer has only 9 ids"):
        BertPairs(corpus, WordTokenizer(vocab_size=9), batch_size=2)


def test_real_text():
    documents = list(read_documents(str(shared_data("lm/bert_docs/books_valid.txt"))))
    words = sorted({word for document in documents for s in document for word in s.split()})
    tokenizer = WordTokenizer(words)
    corpus = TokenizedCorpus.build(documents, tokenizer, progress=False)
    pairs = BertPairs(corpus, tokenizer, batch_size=32, seq_length=128)
    rows = pairs.plan(0)
    assert abs(rows[:, 4].mean() - 0.5) < 4 * 0.5 / np.sqrt(len(rows))
    lengths = (rows[:, 1] - rows[:, 0]) + (rows[:, 3] - rows[:, 2])
    assert lengths.max() == 125 and lengths.mean() > 110
