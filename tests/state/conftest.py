"""Property tests in this folder compile kernels on their first example, so that no deadline would be fair."""

from hypothesis import settings

settings.register_profile("state", deadline=None)
settings.load_profile("state")
