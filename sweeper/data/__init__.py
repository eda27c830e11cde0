"""From a user's records to tokens on disk, and from those to one deterministic stream.

Owns: reading files and formats, splits and their overlaps, tokens and masks, the manifest of
what was prepared, the order of records and the exact cut at the budget.
Refuses to know: studies, arms, models' weights, devices.

Start reading at `preparing.py`, which runs in a child process (`python -m sweeper.data`) and is
the only code that ever opens a file with test records. What it leaves is read through
`manifest.py` and `prepared.py`; `stream.py` decides who reads what, and when. Those three,
`request.py` and `options.py` load neither torch nor transformers.
"""
