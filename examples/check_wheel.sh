#!/usr/bin/env bash
# Install a wheel into an empty environment, run the README's program, load its export without tfnlp.
# Called by `make dist`; prints how long each step took.
set -euo pipefail
WHEEL=$(realpath "$1")
README=$(realpath "$(dirname "$0")/../README.md")
PYTHON=${PYTHON:-python3}
PLACE=$(mktemp -d)
trap 'rm -rf "$PLACE"' EXIT
cd "$PLACE" # not in the clone: only what the wheel holds can be imported
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-3}

timed() {
    local name=$1 before=$SECONDS
    shift
    "$@"
    TIMES+="$name: $((SECONDS - before)) s"$'\n'
}
TIMES=

"$PYTHON" -m venv env
timed "install" env/bin/pip install --quiet "$WHEEL"
"$PYTHON" -c '
import re, sys
print("\n".join(re.findall(r"```python\n(.*?)```", open(sys.argv[1]).read(), re.DOTALL)))
' "$README" > quick_start.py
timed "quick start: pretrain, fine-tune, export" env/bin/python quick_start.py
cat > load.py <<'PYTHON'
import sys

sys.modules["tfnlp"] = None  # an import of it would fail
import tensorflow as tf
import tensorflow_text  # its operations

module = tf.saved_model.load("module")
labels = module.signatures["serving_default"](text=tf.constant(["Colin felt miserable ."]))["label"]
assert labels.numpy().tolist() == [b"sad"], labels
PYTHON
timed "the export, loaded without tfnlp" env/bin/python load.py
timed "the command" env/bin/tfnlp inspect module > /dev/null

printf '\n%s holds what it should\n%s' "$(basename "$WHEEL")" "$TIMES"
