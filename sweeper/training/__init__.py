"""One model, windows in, records out.

Owns: the loop, the objective, optimizers, schedules, precision, adapters and their audit, exposure,
stop conditions, evaluation, saving. Refuses to know: studies, trials, databases, processes.
Start reading at `loop.py`. `options`, `stopping`, `schedule`, `exposure`, `grid`, `watch`, `window`
and `report` are free of torch.
"""
