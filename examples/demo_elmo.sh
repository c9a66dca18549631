#!/usr/bin/env bash
# From a book to contextual word vectors that are used without tfnlp. Called by `make demo-elmo`.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
DEMO=${DEMO:-demo}
EPOCHS=${EPOCHS:-8}
BOOK=book:the_secret_garden
RUN=$DEMO/elmo
mkdir -p "$DEMO"
SECONDS=0

step() { printf '\n== %s\n' "$*"; "$@"; }
# TensorFlow's C++ side prints these while it loads, whatever its log level.
quiet() { "$@" 2> >(grep -vE '^(WARNING: All log|[IWE]0000 )' >&2); }

step "$BIN/tfnlp" pretrain elmo --input $BOOK --tokenize --output "$RUN" --restart \
    --size mini --units 256 --samples 0 --batch-size 32 --reset sentence --epochs "$EPOCHS" \
    --optimizer adamw --learning-rate 1e-3 --warmup 0.05 --schedule linear --dropout 0.2 --bf16
step "$BIN/tfnlp" predict --model "$RUN" --corpus $BOOK --tokenize --same --word left --top 3 \
    "She left the room ." "He turned to the left ."
step "$BIN/tfnlp" export --model "$RUN" --output "$DEMO/elmo_module" --overwrite
step quiet "$BIN/python" examples/use_elmo.py "$DEMO/elmo_module" --word like \
    "I would like to go there ." "She should like to see it ." \
    "It looked like a garden ." "He seemed like a boy ."

printf '\ndone in %d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
printf 'page of the run %s\nSavedModel      %s\n' "$RUN/page.html" "$DEMO/elmo_module"
