"""A property takes as long as it takes: the first example may compile a kernel."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None, print_blob=True)
settings.load_profile("no-deadline")
