"""One file a record format; `detection.py` lists them and decides which one a file has.

Owns: which keys hold what, and what makes a record unusable.
Refuses to know: files, tokenizers. Start reading at `format.py`.
"""
