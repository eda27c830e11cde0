"""Opens the test split: once, for a frozen choice, with the intent on record before.

Owns: everything that touches test records after the data were prepared, and the child process in
which it happens. Refuses to know: how a choice is made, and what the losses mean. Start reading in
`opening.py`; what runs in the child begins in `examining.py`.
"""
