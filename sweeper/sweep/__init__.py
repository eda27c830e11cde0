"""Policy: which cell runs when, what an ending means for the rest, and the Optuna study.

Owns: the coordinator of a study (one at a time), its slot loops, the order of writes when a
trial ends, and the mirror of everything in Optuna, which only `optuna_study` imports.
Refuses to know: SQL, torch, how a child process is started, how anything is printed.
Start reading at `running.run_study`, then `slot_loop`, then `finishing`.
"""
