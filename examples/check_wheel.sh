#!/usr/bin/env bash
# Install a wheel into an empty environment, run the README's programs, load their export without
# tfnlp. A small BERT of a book takes the place of the published model, which needs a network.
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
timed "pretrain" env/bin/tfnlp pretrain bert --input book:the_secret_garden --output bert --size tiny \
    --seq-length 32 --steps 20
"$PYTHON" - "$README" <<'PYTHON'
import re, sys

with open("reviews.csv", "w") as file:
    file.write("text,label\n" + "so good,good\nso bad,bad\n" * 20)
with open("quick_start.py", "w") as file:
    blocks = re.findall(r"```python\n(.*?)```", open(sys.argv[1]).read(), re.DOTALL)
    file.write("\n".join(blocks).replace("hf://sentence-transformers/all-MiniLM-L6-v2", "bert"))
PYTHON
timed "the README's programs: fine-tune, export, layers, search" env/bin/python quick_start.py
env/bin/python -c 'import json, tfnlp
found = tfnlp.load("reviews").predict(["so good", "so bad"])
json.dump([row["label"] for row in found], open("labels.json", "w"))'
cat > load.py <<'PYTHON'
import json
import sys

sys.modules["tfnlp"] = None  # an import of it would fail
import tensorflow as tf
import tensorflow_text  # its operations

module = tf.saved_model.load("module")
labels = module.signatures["serving_default"](text=tf.constant(["so good", "so bad"]))["label"]
with open("labels.json") as file:
    assert [label.decode() for label in labels.numpy()] == json.load(file), labels
PYTHON
timed "the export, loaded without tfnlp" env/bin/python load.py
timed "the command" env/bin/tfnlp inspect module > /dev/null

printf '\n%s holds what it should\n%s' "$(basename "$WHEEL")" "$TIMES"
