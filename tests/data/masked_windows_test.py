"""Windows of whole sentences beside a loop that fills them one sentence at a time."""

import numpy as np
import pytest

from tests.data.synthetic import as_numpy, make_corpus, unmasked
from tfnlp.data import MaskedWindows
from tfnlp.data.pretraining import masked_windows

CLS, SEP, PAD = 2, 3, 0


def filled_one_by_one(corpus, space):
    """The windows as FULL-SENTENCES of Liu et al. 2019, section 4.2, says."""
    windows, row = [], []
    starts = set(corpus.document_starts.tolist())
    for s in range(corpus.num_sentences):
        tokens = corpus.tokens[corpus.sentence_starts[s] : corpus.sentence_starts[s + 1]].tolist()
        between = [SEP] if s in starts else []
        for first in range(0, len(tokens), space):
            part = tokens[first : first + space]
            more = [*between, *part] if first == 0 else part
            if row and len(row) + len(more) > space:
                windows.append(row)
                row = []
            row = row + (more if row else part)
    return [*windows, row]


@pytest.mark.parametrize(
    ("sizes", "longest", "block"),
    [((40,) * 10, 40, 1 << 16), ((1,) * 50, 30, 7), ((3, 1, 20), 200, 1), ((1,), 5, 7)],
)
def test_windows_are_filled_sentence_by_sentence_and_masked(sizes, longest, block, monkeypatch):
    monkeypatch.setattr(masked_windows, "_BLOCK", block)
    corpus, tokenizer = make_corpus(sizes, longest=longest)
    windows = MaskedWindows(corpus, tokenizer, batch_size=1, seq_length=64, max_predictions=10)
    wanted = filled_one_by_one(corpus, 62)
    steps = windows.steps_per_epoch
    assert steps == len(wanted)
    found, masks = [], set()
    for step in range(2 * steps):
        batch = as_numpy(windows.batch(step))
        assert set(batch) == {
            "input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions",
            "masked_lm_ids", "masked_lm_weights",
        }  # fmt: skip
        assert {v.shape for v in batch.values()} == {(1, 64), (1, 10)}
        used = batch["masked_lm_weights"] > 0
        assert used.any() and not np.isin(batch["masked_lm_ids"][used], [0, 2, 3]).any()
        assert not batch["input_type_ids"].any()
        masks.add(batch["masked_lm_positions"].tobytes())
        (ids,), size = unmasked(batch), batch["input_mask"].sum()
        assert ids[0] == CLS and ids[size - 1] == SEP and (ids[size:] == PAD).all()
        found.append(ids[1 : size - 1].tolist())
    assert sorted(found[:steps]) == sorted(found[steps:]) == sorted(wanted)
    assert len(masks) > steps  # they are drawn anew in each epoch
