"""Show what a SavedModel offers: what it takes and returns, and whether it can be fine-tuned."""

import json


def add_arguments(parser):
    """Arguments of `tfnlp inspect`."""
    parser.add_argument(
        "directory",
        metavar="DIR",
        help="a SavedModel, or a folder with an encoder or model and its preprocessor; also a "
        ".tar.gz file or an address",
    )
    parser.add_argument("--json", action="store_true", help="print a list of modules as JSON")


def run(args):
    """Prints what is found of each module."""
    from tfnlp.hub.inspection.inspect import inspect
    from tfnlp.hub.loading.folders import saved_models

    found = [inspect(folder) for folder in saved_models(args.directory)]
    if args.json:
        print(json.dumps([module.to_dict() for module in found], indent=2))
    else:
        print("\n\n".join(map(str, found)))
