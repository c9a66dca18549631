"""Models that are published under a name, downloaded once into the cache of their library.

`hf://org/name[@revision]` is downloaded by huggingface_hub, and
`kaggle://owner/model/framework/variation[/version]` by kagglehub. They are imported when such a
name is used.
"""

from tfnlp.published.names import (
    Fetched,
    at_revision,
    fetch,
    is_published,
)

__all__ = [
    "Fetched",
    "at_revision",
    "fetch",
    "is_published",
]
