"""The fields of `config.json` that are not arguments of a model: harmless ones, and others.

A field that a family reads is an argument of its model. Of the others those in `HARMLESS` change no
number of a prediction, and those in `ONLY` none with the values here; any other value is refused. A
field that is in no table is named on stderr.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Collection, Mapping
from typing import Any

from tfnlp.text.lines import shown

HARMLESS = frozenset(
    # What wrote the file, and where it was.
    "_name_or_path name_or_path transformers_version architectures model_type auto_map "
    "finetuning_task task_specific_params language adapters tokenizer_class model_max_length "
    "tfnlp_task gradient_checkpointing vocab_file sentence_transformers "
    # Of the whole that a model may be a part of.
    "is_encoder_decoder "
    # How transformers computes the same numbers, in which precision, and which of them it returns.
    "_attn_implementation attn_implementation dtype torch_dtype use_bfloat16 torchscript "
    "return_dict output_attentions output_hidden_states output_past use_cache cache_implementation "
    "chunk_size_feed_forward reorder_and_upcast_attn tie_last_hidden_states "
    # Rates of dropout, and how weights begin.
    "classifier_dropout classifier_dropout_prob hidden_dropout qa_dropout seq_classif_dropout "
    "embd_pdrop summary_first_dropout summary_last_dropout sinusoidal_pos_embds tie_weights_ "
    # Names and tokens, which the head's and the tokenizer's files have; padding is masked.
    "id2label label2id num_labels _num_labels problem_type pad_token_id bos_token_id eos_token_id "
    "sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id prefix "
    # Old names of what the file states twice, or what no class has read.
    "n_ctx n_special predict_special_tokens directionality pooler_fc_size pooler_num_fc_layers "
    "pooler_num_attention_heads pooler_size_per_head pooler_type output_size num_memory_blocks "
    "net_structure_type gap_size down_scale_factor "
    # Of heads for which their classes are asked, see `TaskHead.fixed`.
    "summary_type summary_use_proj summary_activation summary_proj_to_labels "
    # How texts are generated.
    "max_length min_length do_sample early_stopping num_beams temperature top_k top_p typical_p "
    "repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences output_scores return_dict_in_generate num_beam_groups "
    "forced_bos_token_id forced_eos_token_id remove_invalid_values diversity_penalty "
    "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens".split()
)
ONLY: Mapping[str, tuple[Any, ...]] = {
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "position_embedding_type": ("absolute", None),
    "is_causal": (None,),
    "pruned_heads": ({}, None),
    "per_layer_config": ({}, None),
    "layer_types": (None,),
    "sliding_window": (None,),
    "quantization_config": (None,),
}


def check_fields(path: pathlib.Path, config: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse fields whose values are not executed; name those that nobody knows on stderr.

    `known` are those that the family reads.
    """
    check_values(path, config, {key: ONLY[key] for key in ONLY if key not in known})
    unknown = sorted(set(config) - {*known, *HARMLESS, *ONLY})
    if unknown:
        names = ", ".join(shown(key) for key in unknown[:10])
        print(f"{path} has fields that tfnlp does not know, and ignores: {names}", file=sys.stderr)


def check_values(
    path: pathlib.Path, config: Mapping[str, Any], only: Mapping[str, tuple[Any, ...]]
) -> None:
    """Raise ValueError if a field has a value that is not among those of `only`."""
    for key, values in only.items():
        if key in config and config[key] not in values:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, which tfnlp does not execute; it reads "
                f"{' or '.join(repr(value) for value in values)}"
            )
