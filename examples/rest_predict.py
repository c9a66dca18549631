"""TensorFlow Serving's REST `predict`, answered from a SavedModel by its signature.

    python rest_predict.py models/sentiment request.json             prints the response
    python rest_predict.py models/sentiment --port 8501              a server, for trying things out

MODEL is a folder of numbered versions, of which the last is loaded, or a SavedModel. A request is
`{"instances": [...]}`, a row each, or `{"inputs": ...}`, a column each, with or without
`"signature_name"`; see https://www.tensorflow.org/tfx/serving/api_rest. It needs TensorFlow alone,
for models with a WordPiece vocabulary also tensorflow_text.
"""

import argparse
import http.server
import json
import os
from typing import Any

import tensorflow as tf

try:
    import tensorflow_text  # noqa: F401  # registers the operations of tokenizers
except ImportError:
    pass


class Model:
    """A SavedModel, loaded as TensorFlow Serving loads it: by the tag "serve".

    Args:
        path: a SavedModel, or a folder of numbered versions.
    """

    def __init__(self, path: str) -> None:
        if not os.path.isfile(os.path.join(path, "saved_model.pb")):
            versions = [x for x in os.listdir(path) if x.isdecimal()]
            if not versions:
                raise ValueError(f"{path} is neither a SavedModel nor a folder of versions")
            path = os.path.join(path, max(versions, key=int))
        self.name = os.path.basename(os.path.dirname(os.path.abspath(path)))
        self._module = tf.saved_model.load(path, tags=["serve"])

    def predict(self, request: Any) -> dict[str, Any]:
        """Return the response to a request.

        Raises:
            ValueError: for a request that the signature does not take.
        """
        if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
            raise ValueError('the request must have either "instances" or "inputs"')
        name = request.get("signature_name", "serving_default")
        if name not in self._module.signatures:
            known = ", ".join(self._module.signatures)
            raise ValueError(f"there is no signature {name!r}, but {known}")
        function = self._module.signatures[name]
        _, specs = function.structured_input_signature
        by_row = "instances" in request
        columns = _columns(request["instances"], specs) if by_row else request["inputs"]
        if not isinstance(columns, dict) and len(specs) == 1:
            columns = dict.fromkeys(specs, columns)
        if not isinstance(columns, dict) or columns.keys() != specs.keys():
            raise ValueError(f"signature {name!r} takes {', '.join(sorted(specs))}")
        tensors = {key: _tensor(key, columns[key], spec) for key, spec in specs.items()}
        found = {key: _plain(x.numpy().tolist()) for key, x in function(**tensors).items()}
        if not by_row:
            return {"outputs": next(iter(found.values())) if len(found) == 1 else found}
        rows = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
        if len(found) == 1:
            rows = next(iter(found.values()))
        return {"predictions": rows}


def _columns(rows: Any, specs: dict[str, tf.TensorSpec]) -> dict[str, list]:
    """Return a list of rows, values or dicts, as columns."""
    if not isinstance(rows, list) or not rows:
        raise ValueError('"instances" must be a list of one row or more')
    if not all(isinstance(row, dict) for row in rows):
        if len(specs) > 1:
            raise ValueError(f"a row must be an object with {', '.join(sorted(specs))}")
        (name,) = specs
        return {name: rows}
    if any(row.keys() != specs.keys() for row in rows):
        raise ValueError(f"a row must be an object with {', '.join(sorted(specs))}")
    return {name: [row[name] for row in rows] for name in specs}


def _tensor(name: str, values: Any, spec: tf.TensorSpec) -> tf.Tensor:
    try:
        tensor = tf.constant(values, spec.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {spec.dtype.name} of the shape {spec.shape}") from error
    if not spec.shape.is_compatible_with(tensor.shape):
        raise ValueError(f"{name} has the shape {tensor.shape}; expected {spec.shape}")
    return tensor


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [_plain(value) for value in values]
    return values.decode("utf-8", "replace") if isinstance(values, bytes) else values


def serve(model: Model, port: int) -> http.server.HTTPServer:
    """Return a server of `POST /v1/models/NAME:predict` on this machine alone."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802
            status, answer = 200, {}
            try:
                if self.path != f"/v1/models/{model.name}:predict":
                    status = 404
                    raise ValueError(f"the path must be /v1/models/{model.name}:predict")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = model.predict(json.loads(body))
            except (ValueError, tf.errors.OpError) as error:
                status, answer = max(status, 400), {"error": str(error)}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    return http.server.HTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Answer one request, or serve."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("request", nargs="?", metavar="FILE", help="a request, JSON")
    parser.add_argument("--port", type=int, help="serve on this port of 127.0.0.1")
    options = parser.parse_args()
    model = Model(options.model)
    if options.port is not None:
        serve(model, options.port).serve_forever()
    if options.request is None:
        parser.error("give a file with a request, or --port")
    with open(options.request, encoding="utf-8") as file:
        print(json.dumps(model.predict(json.load(file))))


if __name__ == "__main__":
    main()
