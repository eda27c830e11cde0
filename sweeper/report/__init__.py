"""Reads the store for people: tables, the comparison of arms, where a study stands.

Owns: which columns a table has and what they mean, and how rows of the store become the evidence
that `selection` judges. Refuses to know: SQL, how trials run, and anything a child process writes;
it never changes a study. Start reading at `tables.py`.
"""
