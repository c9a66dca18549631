#!/usr/bin/env bash
# From a book to a language model that writes, also without tfnlp. Called by `make demo-gpt`.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
DEMO=${DEMO:-demo}
EPOCHS=${EPOCHS:-10}
RUN=$DEMO/gpt
mkdir -p "$DEMO"
SECONDS=0

step() { printf '\n== %s\n' "$*"; "$@"; }
# TensorFlow's C++ side prints these while it loads, whatever its log level.
quiet() { "$@" 2> >(grep -vE '^(WARNING: All log|[IWE]0000 )' >&2); }

step "$BIN/tfnlp" pretrain gpt --input book:the_secret_garden --output "$RUN" --restart \
    --num-layers 2 --hidden-size 192 --num-heads 6 --vocab-size 2000 --seq-length 64 \
    --epochs "$EPOCHS" --learning-rate 2e-3 --dropout 0.2 --bf16
step "$BIN/tfnlp" predict --model "$RUN" --samples 2 --max-new-tokens 60 "Mary opened the door"
step "$BIN/tfnlp" export --model "$RUN" --output "$DEMO/gpt_modules" --overwrite
step quiet "$BIN/python" examples/use_gpt.py "$DEMO/gpt_modules" "The robin"

printf '\ndone in %d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
printf 'page of the run %s\nSavedModels     %s\n' "$RUN/page.html" "$DEMO/gpt_modules"
