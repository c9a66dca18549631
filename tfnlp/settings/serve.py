"""Settings of `tfnlp serve`."""

from typing import Any

from tfnlp.settings.options import Settings, option


class ServeSettings(Settings):
    """A module, where it is served, and the limits of requests."""

    module: Any = option(
        help="what `tfnlp inspect` takes: a module that `tfnlp export` wrote, also a pair; a "
        ".tar.gz file, an address, hf://org/name or kaggle://owner/model/framework/variation. "
        "Or a run, which is exported first",
        positional=True, metavar="DIR",
    )  # fmt: skip
    trusted: bool = option(
        False, "serve also a module that reads or writes files, runs Python or reaches addresses: "
        "`tfnlp inspect --audit` says where",
    )  # fmt: skip
    host: str = option(
        "127.0.0.1", "address to listen at; one that others reach has no protection: there is no "
        "authentication", metavar="ADDRESS",
    )  # fmt: skip
    port: int = option(8000, "0: a free one", at_least=0, at_most=65535)
    batch_size: int = option(
        32, "rows that the module computes at a time, of one or several requests", at_least=1,
        group="limits",
    )  # fmt: skip
    wait: float = option(
        5.0, "milliseconds that a request waits for others to be computed with", at_least=0,
        at_most=1000, group="limits",
    )  # fmt: skip
    max_texts: int = option(256, "texts a request", at_least=1, group="limits")
    max_characters: int = option(20000, "characters a text", at_least=1, group="limits")
    max_bytes: int = option(2_000_000, "bytes a request", at_least=100, group="limits")
    max_waiting: int = option(
        1024, "texts that wait for the module; more are refused with status 503", at_least=1,
        group="limits",
    )  # fmt: skip
