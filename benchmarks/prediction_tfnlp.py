"""tfnlp in `benchmarks.prediction`."""

import json
import sys

import keras
import numpy as np

from benchmarks.prediction import CLASSES, SIZES, VOCAB, take_turns
from tfnlp import models
from tfnlp.data import TaskBatches, bucket_lengths
from tfnlp.tasks import predictor


def main():
    case = json.loads(sys.argv[1])
    dtype = "float32" if case["dtype"] == "float32" else f"mixed_{case['dtype']}"
    keras.config.set_dtype_policy(dtype)
    layers, hidden, heads = SIZES[case["size"]]
    encoder = models.bert(VOCAB, layers, hidden, heads, 4 * hidden)
    predict = predictor(models.bert_task(encoder, "class", CLASSES))

    def predicted(texts):
        columns = {
            "input_word_ids": texts,
            "input_mask": [np.ones_like(text) for text in texts],
            "input_type_ids": [np.zeros_like(text) for text in texts],
        }
        sizes = [len(text) for text in texts]
        lengths = bucket_lengths(sizes, len(sizes), multiple=1)
        batches = TaskBatches(columns, {}, batch_size=case["batch"], lengths=lengths)
        return predict(batches)["class_logits"]

    take_turns(case, {dtype: predicted})


if __name__ == "__main__":
    main()
