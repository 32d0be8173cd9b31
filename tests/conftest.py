"""For every test: property tests have no deadline, since a shared machine may be slow at any moment."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
