"""Servers of Kafka for the tests here, and a topic for each test."""

import re
from collections.abc import Iterator

import pytest
from tests.kafka.broker import Servers, serving


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with serving(count=2) as running:
        yield running


@pytest.fixture
def topic(servers: Servers, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions of its own."""
    name = re.sub(r"\W", "-", request.node.name)
    servers.make(name, partitions=3)
    return name
