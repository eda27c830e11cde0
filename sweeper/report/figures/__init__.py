"""The report's figures: values in, a drawing and the rows that it draws out.

Owns: what each figure shows, its text alternative, its colours and shapes. Refuses to know: the
store, the page, and any number that it would have to compute anew. Start reading at `drawing.py`;
one module per figure beside it. matplotlib is loaded with this package and nowhere else.
"""
