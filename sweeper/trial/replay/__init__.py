"""Reruns the last windows of an attempt, looks on more closely, and compares with its record.

`python -m sweeper.trial.replay FOLDER` reads what is asked from the folder and writes its report
there; the attempt's own folders are read only. Start reading at `replaying.py`.
"""
