"""What people are told a measure is; files, logs and Python keep its name."""

from __future__ import annotations

_WORDS = {
    # Of pretraining.
    "masked_lm_accuracy": "masked words right",
    "masked_lm_loss": "loss of masked words",
    "next_sentence_accuracy": "next sentences right",
    "next_sentence_loss": "loss of next sentences",
    "sentence_order_accuracy": "sentence orders right",
    "sentence_order_loss": "loss of sentence orders",
    "discriminator_accuracy": "original or replaced, right",
    "discriminator_loss": "loss of the discriminator",
    "lm_loss": "loss of next words",
    "lm_perplexity": "perplexity of next words",
    "word_perplexity": "perplexity a word",
    "nll": "loss without smoothing",
    "token_accuracy": "tokens right",
    "ranking_accuracy": "right text ranked first",
    "softmax_accuracy": "pairs right",
    # Of fine-tuning.
    "class_accuracy": "accuracy",
    "label_accuracy": "labels right",
    "choice_accuracy": "choices right",
    "tag_accuracy": "tags right",
    "start_accuracy": "starts right",
    "end_accuracy": "ends right",
    "span_accuracy": "answers right",
    "score_pearson": "Pearson's r",
    "pearson": "Pearson's r",
    "spearman": "Spearman's rho",
    "mse": "mean squared error",
    "matthews": "Matthews correlation",
    "f1": "F1",
    "f1_macro": "macro F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "samples_f1": "F1 a text",
    "subset_accuracy": "all labels right",
    # Of sentence vectors.
    "auc": "AUC",
    "mrr": "MRR",
}


def in_words(name: str) -> str:
    """Return what a measure is called where people read it: "masked words right"."""
    return _WORDS.get(name) or name.replace("_", " ").replace("ndcg", "nDCG")
