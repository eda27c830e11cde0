"""From the study file to what each attempt is told.

Owns: the schema and its faults, the keys that do nothing yet, preparing by child processes, the
plan (cells, rates, exposure), the fingerprint, the spec of an attempt.
Refuses to know: torch, the database, slots, launchers, how anything is printed.
Start reading at `schema.py`, then `loading.load_study`, `preparing.prepare`, `plan.make_plan`.
"""
