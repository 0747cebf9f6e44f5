"""Bazel runs this folder in shards: each takes its share of the cases."""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep this shard's share, and tell Bazel that we know about shards."""
    count = int(os.environ.get("TEST_TOTAL_SHARDS", "1"))
    if count > 1:
        Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()
        items[:] = items[int(os.environ["TEST_SHARD_INDEX"]) :: count]
