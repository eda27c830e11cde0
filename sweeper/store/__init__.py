"""The study database: the only room that speaks SQL.

Owns: the tables beside Optuna's, the views that users query, who owns which cell, and what
every attempt reported. Refuses to know: how a trial is run, what a comparison is, Optuna.
SQL that only one database understands stays in `engine`.
Start reading at `store.StudyStore`, then `tables`, `claims` and `endings`.
"""
