"""Peak memory in bytes."""

import psutil
import torch

from sweeper.training.memory import peak_memory_bytes


def test_the_peak_on_a_cpu_lies_between_what_the_process_holds_and_what_the_host_has():
    """The kernel counts resident pages in batches, hence nine tenths."""
    peak = peak_memory_bytes(torch.device("cpu"))
    assert 0.9 * psutil.Process().memory_info().rss <= peak <= psutil.virtual_memory().total
