"""Files of labelled examples, whole ones; the tests damage them."""

import gzip
import json


def write(folder, content, name):
    path = folder / name
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


COPA = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE copa-corpus SYSTEM "copa.dtd">
<copa-corpus version="1.0">
  <item id="1" asks-for="cause" most-plausible-alternative="1">
    <p>The runner wore shorts.</p>
    <a1>It was hot &amp; dry.</a1>
    <a2>She planned to run
along the beach.</a2>
  </item>
  <item id="2" asks-for="effect" most-plausible-alternative="2">
    <p>It rained.</p><a1>It was dry.</a1><a2>It was wet.</a2>
  </item>
</copa-corpus>
"""


CONLLU = "\n".join(
    "\t".join(row) if row else ""
    for row in [
        ("# sent_id = 1",),
        ("1-2", "don't", *"________"),
        ("1", "do", "do", "AUX", "VB", *"_____"),
        ("2", "n't", "not", "PART", "RB", "Polarity=Neg", *"____"),
        ("2.1", "go", *"________"),
        (),
        ("1", "_", "_", "PUNCT", "NFP", *"_____"),
    ]
)


CONTEXT = " É\U0001d4d0 cat sat. A cat ran."


def squad(*asked, version="1.1"):
    return json.dumps(
        {"version": version, "data": [{"paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    )


def ask(name="q1", answers=((4, "cat"), (15, "cat ran")), **more):
    answers = [{"answer_start": start, "text": text} for start, text in answers]
    return {"id": name, "question": "Who?", "answers": answers, **more}
