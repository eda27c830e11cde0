"""One file per launcher; each passes `tests/contracts/test_launchers.py`."""
