"""For every test: property tests have no deadline, since a shared machine may be slow at any moment;
and hashes are remembered in a folder of the tests, not in the user's."""

import os
import tempfile

from hypothesis import settings

os.environ["MERGESCOPE_CACHE"] = tempfile.mkdtemp(prefix="mergescope-test-cache-")

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
