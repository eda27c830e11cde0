"""One attempt at a cell: a folder with a spec in it, and a child process that carries it out.

Owns: `python -m sweeper.trial FOLDER`; the only place where a spec meets torch.
Refuses to know: the database, Optuna, launchers, other attempts.
Start reading: `main.py` (the process), `attempt.py` (from spec to outcome), `folder.py` (paths);
`rank_processes.py` where several processes share the trial, `rank.py` for each of them.
`folder.py` and `exit_status.py` are for the rooms above and load nothing.
"""
