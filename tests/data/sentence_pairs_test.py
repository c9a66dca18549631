"""Which pairs are drawn, against loops of the paper and its code, and batches of them."""

import warnings

import numpy as np
import pytest

from tests.data.synthetic import WordTokenizer, as_numpy, make_corpus, make_pairs, places, unmasked
from tfnlp.data import SentencePairs
from tfnlp.data.pretraining.sentence_pairs import Pairs, drawn_blocks, truncate

WALK = {"seq_length": 64, "short_seq_prob": 0.1, "seed": 0, "epoch": 0}


def draw_pairs(starts, documents, first=0, **settings):
    blocks = drawn_blocks(starts, documents, first, **{**WALK, **settings})
    return Pairs(*map(np.concatenate, zip(*blocks, strict=True)))


@pytest.mark.parametrize("longest", [5, 40, 150])
@pytest.mark.parametrize("seq_length", [8, 64])
def test_b_follows_a_or_comes_from_another_document(longest, seq_length):
    pairs = make_pairs(longest=longest, seq_length=seq_length, max_predictions=8)
    rows = pairs.plan(0)
    a_start, a_end, b_start, b_end, is_random, target = rows.T
    assert set(is_random.tolist()) == {0, 1}
    space = seq_length - 3
    length_a, length_b = a_end - a_start, b_end - b_start
    assert (length_a > 0).all() and (length_b > 0).all()
    assert (length_a + length_b <= space).all()
    assert (target <= space).all() and (target >= 2).all()
    # Either part lies within one document.
    document_a, sentence_a = places(pairs.corpus, a_start)
    document_b, sentence_b = places(pairs.corpus, b_start)
    last_document_a, last_sentence_a = places(pairs.corpus, a_end - 1)
    last_document_b, last_sentence_b = places(pairs.corpus, b_end - 1)
    np.testing.assert_array_equal(document_a, last_document_a)
    np.testing.assert_array_equal(document_b, last_document_b)
    np.testing.assert_array_equal(document_a != document_b, is_random == 1)
    # A true B begins where A ended, unless the ends that met there were cut off.
    follows, cut = is_random == 0, length_a + length_b == space
    gap = b_start - a_end
    assert (gap[follows] >= 0).all()
    assert (gap[follows & ~cut] == 0).all()
    # What was not cut is made of whole sentences.
    starts = pairs.corpus.sentence_starts
    whole = rows[~cut]
    assert np.isin(whole[:, :4], starts).all()
    if longest == 40 and seq_length == 64:  # the conditions above were not empty
        assert (~cut).sum() > 20 and (follows & ~cut).sum() > 10 and (gap[follows] > 0).sum() > 20


def test_a_part_of_the_corpus_walked_alone_gives_its_pairs():
    corpus = make_pairs([1, 2, 3, 40, 5, 60, 1, 2] * 3, longest=10).corpus
    starts, documents = corpus.sentence_starts, corpus.document_starts
    whole = draw_pairs(starts, documents)
    assert (np.diff(whole.number) > 0).all() and len(set(whole.key.tolist())) == len(whole.key)
    for first, last in ((0, 5), (5, 6), (6, 24), (23, 24)):
        begin, end = documents[first], documents[last]
        part = draw_pairs(starts[begin : end + 1] - starts[begin], documents, first)
        chosen = (whole.number >= begin) & (whole.number < end)
        for name, values in part._asdict().items():
            np.testing.assert_array_equal(values, getattr(whole, name)[chosen], err_msg=name)


@pytest.mark.parametrize(("sizes", "longest"), [([9, 1, 30, 2], 12), ([70], 30), ([2], 5)])
def test_the_walk_equals_the_loop_of_the_paper(sizes, longest):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = make_pairs(sizes, longest=longest).corpus
    starts, documents = corpus.sentence_starts.tolist(), corpus.document_starts.tolist()
    for epoch in range(20):
        got = draw_pairs(corpus.sentence_starts, corpus.document_starts, epoch=epoch)
        stream = np.random.Philox(key=[WALK["seed"], epoch])
        words = stream.random_raw([corpus.num_sentences, 8])
        rows = []
        for number, (first, end) in enumerate(zip(documents[:-1], documents[1:], strict=True)):
            place = first
            while place < end:
                short, shorter, split, label, where, offset = (words[place, :6] >> 11) / 2**53
                target = 61 if short >= 0.1 else 2 + int(shorter * 60)
                i, j = place, place + 1
                while j < end and starts[j] - starts[i] < target:
                    j += 1
                is_random = label < 0.5 and len(sizes) + sum(sizes) > 3
                if j - i == 1 and not is_random:
                    if j < end:
                        j += 1
                    elif i > first:
                        i -= 1
                a_end = i + 1 + int(split * (j - i - 1))
                outside = sum(sizes) - (a_end - i) - 1
                random = (is_random or j - i == 1) and (len(sizes) > 1 or outside >= 1)
                if not random:
                    b, b_end = a_end, j
                elif len(sizes) > 1:
                    others = [n for n in range(len(sizes)) if n != number]
                    other = others[int(where * len(others))]
                    b, b_end = documents[other] + int(offset * sizes[other]), documents[other + 1]
                else:
                    b = (a_end + 1 + outside // 4 + int(offset * -(-outside // 2))) % sizes[0]
                    b_end = i if b < i else sizes[0]
                rows.append((place, words[place, 6], i, a_end, b, b_end, random, target))
                place = a_end if random else j
        fields = (
            got.number,
            got.key,
            got.a,
            got.a_end,
            got.b,
            got.b_end,
            got.is_random,
            got.target,
        )
        assert [tuple(x.tolist() for x in row) for row in zip(*fields, strict=True)] == rows


def test_cutting_equals_the_loop_of_the_reference_code():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 300, [2000, 2])
    coins = rng.integers(0, 2**64, 2000, np.uint64)
    front, keep = truncate(lengths, coins, seq_length=20)
    for (a, b), kept in zip(lengths.tolist(), keep.tolist(), strict=True):
        while a + b > 17:
            if a > b:
                a -= 1
            else:
                b -= 1
        assert kept == [a, b]
    # A fair coin decides the end from which each token goes, of A and of B alike.
    gone = lengths - keep
    deviation = (front - gone / 2) / np.sqrt(np.maximum(gone, 1) / 4)
    assert (front >= 0).all() and (front <= gone).all()
    for n in range(2):
        many = deviation[gone[:, n] > 20, n]
        assert len(many) > 1500 and abs(many.mean()) < 0.1 and abs(many.std() - 1) < 0.1
    assert abs(np.corrcoef(deviation.T)[0, 1]) < 0.1
    again, _ = truncate(lengths[::-1], coins[::-1], seq_length=20)
    np.testing.assert_array_equal(again[::-1], front)


def test_a_single_document_is_warned_of_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pairs([60] * 2)
    with pytest.warns(UserWarning, match="one document") as caught:
        pairs = make_pairs([800], longest=20)
        pairs.batch(pairs.steps_per_epoch)
    assert len([w for w in caught if w.category is UserWarning]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seq_length": 7}, "seq_length"),
        ({"max_predictions": 65}, "max_predictions"),
        ({"short_seq_prob": 1.1}, "short_seq_prob"),
        ({"seed": 2**31}, "seed"),
        ({"second": "other"}, "second"),
        ({"second": "swapped", "document_sizes": [1] * 20}, "corpus"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_pairs(**arguments)


def test_another_tokenizer_is_noticed():
    corpus, _ = make_corpus([5, 5])
    with pytest.raises(ValueError, match="corpus"):
        SentencePairs(corpus, WordTokenizer(vocab_size=9), batch_size=2)


def test_swapped_pairs_are_those_that_follow_in_the_other_order():
    sizes = [40, 1, 2, 30] * 10
    swapped, following = (make_pairs(sizes, second=s) for s in ("swapped", "following"))
    corpus = swapped.corpus
    one, other = (
        draw_pairs(corpus.sentence_starts, corpus.document_starts, second=s)
        for s in ("swapped", "following")
    )
    assert not one.is_random.any() and not other.label.any()
    assert abs(one.label.mean() - 0.5) < 0.15
    for ours, theirs in (("a", "b"), ("a_end", "b_end"), ("b", "a"), ("b_end", "a_end")):
        wanted = np.where(one.label, getattr(other, theirs), getattr(other, ours))
        np.testing.assert_array_equal(getattr(one, ours), wanted)
    np.testing.assert_array_equal(other.a_end, other.b)  # B follows A
    # Documents of one sentence make no pair; all others are read.
    seen = np.zeros(corpus.num_sentences, bool)
    for first, end in zip(other.a, other.b_end, strict=True):
        seen[first:end] = True
    alone = np.diff(corpus.document_starts) == 1
    np.testing.assert_array_equal(~seen, np.repeat(alone, np.diff(corpus.document_starts)))
    batch = swapped.batch(0)
    assert "next_sentence_labels" not in batch
    np.testing.assert_array_equal(batch["sentence_order_labels"], swapped.plan(0)[:8, 4])
    assert not {"sentence_order_labels", "next_sentence_labels"} & set(following.batch(0))


def test_batches_are_the_planned_pairs_packed():
    pairs = make_pairs()
    cls, sep, pad = 2, 3, 0
    for step in range(pairs.steps_per_epoch):
        batch = as_numpy(pairs.batch(step))
        rows = pairs.plan(0)[step * 8 : step * 8 + 8]
        used = batch["masked_lm_weights"] > 0
        assert used.any() and not {0, 2, 3} & set(batch["masked_lm_ids"][used].tolist())
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
    few = as_numpy(make_pairs(max_predictions=3, mask_rate=0.5).batch(0))
    assert (few["masked_lm_weights"].sum(axis=1) == 3).all()


def test_whole_words_are_masked_together():
    corpus, _ = make_corpus([40] * 30)
    # Words of three pieces within the corpus: the ids 5, 6, 7 make one word, 8, 9, 10 the next.
    is_continuation = np.arange(5 + corpus.num_tokens) % 3 != 2
    is_continuation[:5] = False
    tokenizer = WordTokenizer(vocab_size=len(is_continuation), is_continuation=is_continuation)
    torn = {}
    for whole_word in (True, False):
        sizes = {"batch_size": 32, "seq_length": 64, "max_predictions": 40}
        pairs = SentencePairs(corpus, tokenizer, whole_word=whole_word, **sizes)
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


def test_every_epoch_has_the_same_number_of_examples():
    pairs = make_pairs()
    assert pairs.steps_per_epoch == pairs.num_examples // 8
    walks = {len(pairs._draw(epoch).order) for epoch in range(8)}
    assert len(walks) > 1  # or else there would be nothing to level
    assert {pairs.plan(epoch).shape for epoch in range(8)} == {(pairs.num_examples, 6)}


def test_a_corpus_smaller_than_a_batch_goes_round():
    pairs = make_pairs([3, 3], batch_size=64)
    assert pairs.num_examples < 64 and pairs.steps_per_epoch == 1
    labels = as_numpy(pairs.batch(0))["next_sentence_labels"]
    np.testing.assert_array_equal(labels, np.resize(pairs.plan(0)[:, 4], 64))
    labels = as_numpy(pairs.batch(1))["next_sentence_labels"]  # the next step is the next epoch
    np.testing.assert_array_equal(labels, np.resize(pairs.plan(1)[:, 4], 64))
