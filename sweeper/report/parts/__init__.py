"""The parts of the report that are words: marks, what was fixed, what happened, limits, terms.

Owns: which sentences of the report apply to a study. Refuses to know: HTML, and any number that
`selection` has not computed. Start reading at `limits.py`.
"""
