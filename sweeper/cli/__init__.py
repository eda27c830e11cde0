"""The command line: parse, call one function, print.

Owns: commands, exit statuses, tables in a terminal, the live view. Results go to standard output,
everything else to standard error. Refuses to know: SQL, Optuna, torch, how a study is run or
compared. Start reading at `main.py`.
"""
