"""Slots, limits, supervision and launchers: an attempt folder is started, watched and ended.

Owns: which slots there are, the supervisor process beside each trial, how an ending is judged.
Refuses to know: the database, Optuna, what a trial computes. A trial is a folder and a process.
Start reading: `launcher.py` (the seam), `launchers/local.py`, `supervisor.py`, `ending.py`.
"""
