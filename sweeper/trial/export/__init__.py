"""Makes an adapter a model of its own, and shows that exported files give the loss on record.

`python -m sweeper.trial.export REQUEST ANSWER` reads what is asked, and loads the files as others
will: through peft or transformers alone. Start reading at `exporting.py`.
"""
