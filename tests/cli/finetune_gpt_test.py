"""Every task from its files to a served model, with a GPT of a few weights as backbone."""

import pytest

from tests.cli.every_task import EveryTask

pytestmark = pytest.mark.timeout(1200)


class TestGPT(EveryTask):
    kind = "gpt"
