"""What plans are tested with: no costs that somebody measured on this machine, so that each measures its own."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _no_costs_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
