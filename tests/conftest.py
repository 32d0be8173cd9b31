"""For every test: property tests have no deadline, since a shared machine may be slow at any moment; and hashes are
remembered in a folder of the tests, not in the user's."""

import os

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Programs that tests start inherit it."""
    os.environ["MERGESCOPE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
