import numpy as np

from tests.data.synthetic import WordTokenizer, as_numpy, make_corpus, make_pairs, unmasked
from tfnlp.data import SentencePairs


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
    masks, tokens, seen = 0, 0, set()
    for step in range(2 * pairs.steps_per_epoch):
        batch = as_numpy(pairs.batch(step))
        used = batch["masked_lm_weights"] > 0
        assert not {0, 2, 3} & set(batch["masked_lm_ids"][used].tolist())
        masks, tokens = masks + used.sum(), tokens + batch["input_mask"].sum() - 3 * 8
        seen.add(batch["masked_lm_positions"].tobytes())
    assert len(seen) == 2 * pairs.steps_per_epoch
    assert abs(masks / tokens - 0.15) < 0.01
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
