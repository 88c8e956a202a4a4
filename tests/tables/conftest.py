"""Fixtures of tests that write to PostgreSQL."""

from collections.abc import Iterator
from zlib import crc32

import pytest
from tests.tables.postgres import Server


@pytest.fixture
def schema(postgres: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema of its own."""
    name = f"s{crc32(request.node.nodeid.encode()):x}"
    postgres.run(f"CREATE SCHEMA {name}")
    yield name
    postgres.run(f"DROP SCHEMA {name} CASCADE")
