"""Continue texts with a GPT, as they are written."""

import sys

from tfnlp.commands.arguments import add_model


def add_arguments(parser):
    """Arguments of `tfnlp predict gpt`."""
    add_model(parser)
    parser.add_argument(
        "prompt", nargs="*", help="texts to continue; none: a text a line from stdin"
    )
    parser.add_argument("--max-new-tokens", type=int, default=100, help="tokens to add at most")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="0: always the most probable token"
    )
    parser.add_argument("--top-k", type=int, default=0, help="draw from so many tokens; 0: all")
    parser.add_argument(
        "--top-p", type=float, default=0.95, help="draw from the fewest with this probability"
    )
    parser.add_argument("--beams", type=int, help="search with so many beams in place of drawing")
    parser.add_argument("--samples", type=int, default=1, help="continuations a prompt")
    parser.add_argument("--seed", type=int, default=0, help="of the first continuation")
    parser.add_argument("--bf16", action="store_true", help="weights in bfloat16")


def run(args):
    """Prints each prompt and its continuation, token by token."""
    from tfnlp.commands.loading import load_gpt
    from tfnlp.hub.modules.text_generation import TextGenerator, check_sampling

    check_sampling(args.temperature, args.top_k, args.top_p)
    for name in ("max_new_tokens", "samples", "beams"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value} must be at least 1")
    if args.beams and args.samples > 1:
        raise ValueError("--samples draws, --beams does not; give one of them")
    prompts = args.prompt or [line.rstrip("\n") for line in sys.stdin]
    if not prompts:
        raise ValueError("no text: give prompts as arguments or on standard input")
    loaded = load_gpt(args.model, dtype="bfloat16" if args.bf16 else None)
    generator = TextGenerator(loaded.encoder, loaded.tokenizer)
    between = " " if loaded.tokenizer.kind == "gpt" else ""
    for prompt in prompts:
        for number in range(args.samples):
            print(prompt, end=between, flush=True)
            for piece in _pieces(args, generator, prompt, number):
                print(piece, end="", flush=True)
            print(flush=True)


def _pieces(args, generator, prompt, number):
    if args.beams:
        return generator([prompt], args.max_new_tokens, beams=args.beams)
    return generator.stream(
        prompt,
        args.max_new_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed + number,
    )
