"""Random order, but whole studies first, so that no core waits for them at the end."""

import pytest
import torch


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Sorts stably: the random order is kept on both sides."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
