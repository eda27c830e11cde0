"""Random order, but whole studies first, so that no core waits for them at the end."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Sorts stably: the random order is kept on both sides."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
