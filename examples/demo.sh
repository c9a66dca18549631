#!/usr/bin/env bash
# From a book to a SavedModel that is used without tfnlp. Called by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
DEMO=${DEMO:-demo}
STEPS=${STEPS:-3000}
BOOK=book:the_secret_garden
RUN=$DEMO/run
mkdir -p "$DEMO"
SECONDS=0

step() { printf '\n== %s\n' "$*"; "$@"; }
# TensorFlow's C++ side prints these while it loads, whatever its log level.
quiet() { "$@" 2> >(grep -vE '^(WARNING: All log|[IWE]0000 )' >&2); }

step "$BIN/tfnlp" vocab --input $BOOK --size 4000 --output "$DEMO/vocab.txt"
step "$BIN/tfnlp" pretrain bert --input $BOOK --vocab "$DEMO/vocab.txt" --output "$RUN" --restart \
    --size tiny --seq-length 32 --batch-size 64 --steps "$STEPS" --learning-rate 1e-3 \
    --initializer-range 0.06 --dropout 0 --bf16
step "$BIN/tfnlp" export --model "$RUN" --output "$DEMO/modules" --seq-length 32 --overwrite
step "$BIN/tfnlp" predict --model "$RUN" "Mary looked at the [MASK] and smiled ."
step "$BIN/tfnlp" show attention --model "$RUN" "Mary looked at the [MASK] and smiled ." \
    --output "$DEMO/attention.html"
step quiet "$BIN/python" examples/use_modules.py "$DEMO/modules" tfnlp/books/the_secret_garden.txt \
    --fill "Mary went into the [MASK] and shut the door ." \
    --query "The robin sang in the tree."

printf '\ndone in %d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
printf 'page of the run %s\nattention map   %s\nSavedModels     %s\n' \
    "$RUN/page.html" "$DEMO/attention.html" "$DEMO/modules"
