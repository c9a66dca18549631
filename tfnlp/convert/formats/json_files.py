"""JSON files that somebody else wrote."""

import json

from tfnlp.convert.formats.tensors import Refused, reason, shown


def read_json(path, kind=dict):
    """A JSON file that holds an object (`kind` dict) or an array (list).

    Args:
        path: a `pathlib.Path`.

    Raises:
        ValueError: one line that names the file, if it is not JSON, holds something else, or an
            object has a key twice with different values: readers would not agree on it.
    """

    def members(pairs):
        found = {}
        for key, value in pairs:
            if key in found and found[key] != value:
                raise Refused(f"{path} has the key {shown(key)} twice, with different values")
            found[key] = value
        return found

    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=members)
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file ({reason(error)}); fetch it again") from error
    if not isinstance(value, kind):
        raise ValueError(
            f"{path} holds a JSON {type(value).__name__}; expected "
            f"{'an object' if kind is dict else 'an array'}"
        )
    return value
