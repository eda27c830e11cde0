"""Turns what a study's trials reported into verdicts, a choice and the sentences for both.

Owns: the gates that decide whether two trials may be compared, the paired statistics, the closed
set of verdicts, the choice of an arm, the answer to the study's question.
Refuses to know: files, databases, clocks, tables, torch. Values come in, values go out.
Start reading at `comparison.compare`; what goes in is in `evidence`.
"""
