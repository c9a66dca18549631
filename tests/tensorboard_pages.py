"""What TensorBoard shows of a run, by the answers of its own plugins."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import werkzeug.test
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin


def answers_of(plugin: type, folder: pathlib.Path) -> Callable[..., bytes]:
    """Return a function of a route and its arguments to what a plugin answers."""
    runs = EventMultiplexer()
    runs.AddRunsFromDirectory(str(folder))
    runs.Reload()
    data = MultiplexerDataProvider(runs, str(folder))
    routes = plugin(TBContext(logdir=str(folder), data_provider=data)).get_plugin_apps()

    def answer(route: str, **arguments: Any) -> bytes:
        found = werkzeug.test.Client(routes[route]).get("/", query_string=arguments)
        assert found.status_code == 200, found.text
        return found.data

    return answer


def projected(run: pathlib.Path) -> tuple[np.ndarray, list[str]]:
    """Return the vectors of a run in the projector, and the lines about them."""
    answer = answers_of(ProjectorPlugin, run)
    assert json.loads(answer("/runs")) == ["logs"]
    (tensor,) = json.loads(answer("/info", run="logs"))["embeddings"]
    asked = {"run": "logs", "name": tensor["tensorName"]}
    lines = answer("/metadata", **asked).decode().split("\n")[:-1]
    rows = len(lines) - ("\t" in lines[0])  # without a header
    return np.frombuffer(answer("/tensor", **asked), "float32").reshape(rows, -1), lines
