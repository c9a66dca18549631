"""BLEU of a model's translations, by the length of the sentences too."""

import json
import os


def run(args, beams=4, length_penalty=0.6, batch_size=32):
    """Prints BLEU; with --report, writes translations and BLEU by length there.

    Args:
        args: of `tfnlp evaluate`.
        beams, length_penalty: of the search.
        batch_size: sentences at a time.
    """
    from tfnlp.commands.loading import load_translation
    from tfnlp.commands.pictures import plot_lengths
    from tfnlp.data import read_parallel
    from tfnlp.files import written_whole
    from tfnlp.hub import Translator
    from tfnlp.tasks.bleu import bleu_by_length, corpus_bleu

    text = read_parallel(args.source, args.target)
    loaded = load_translation(args.model)
    translator = Translator(loaded.decoder, loaded.tokenizer, beams, length_penalty)
    translations = translator(text.sources, batch_size, progress=True)
    bleu, signature = corpus_bleu(translations, text.targets)
    lengths = bleu_by_length(text.sources, translations, text.targets)
    if args.report:
        os.makedirs(args.report, exist_ok=True)
        with written_whole(os.path.join(args.report, "translations.txt")) as path:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{translation}\n" for translation in translations)
        with written_whole(os.path.join(args.report, "lengths.png")) as path:
            plot_lengths({"": lengths}, path)
    if args.json:
        rows = [row._asdict() for row in lengths]
        print(json.dumps({"bleu": bleu, "signature": signature, "lengths": rows}))
        return
    print(f"BLEU {bleu:.2f} of {len(translations):,} sentences ({signature})")
    for row in lengths:
        words = f"{row.shortest} to {row.longest} words"
        print(f"  {words:18s}{row.count:6,} sentences  {row.bleu:6.2f}")
    if args.report:
        print(f"report: {args.report}")
