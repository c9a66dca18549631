"""Every task from its files to a served model, with a BERT of a few weights as backbone."""

import pytest

from tests.cli.every_task import (  # noqa: F401
    files,
    gone_through,
    model,
    test_exports_serve_the_predictions_without_tfnlp,
    test_from_files_to_predictions_and_an_export,
)

pytestmark = pytest.mark.timeout(1200)
KIND = "bert"
