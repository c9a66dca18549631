"""What several tests of the command use."""

import pytest

from tests.cli.toy_tasks import write_toys


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The options that name the files of each toy task."""
    return write_toys(tmp_path_factory.mktemp("toys"))
