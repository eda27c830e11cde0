"""Where a replay begins: the newest sound checkpoint that is early enough, else the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.training.checkpoint import (
    DamagedCheckpoint,
    Found,
    checkpoint_folders,
    read_checkpoint,
)
from sweeper.training.keeper import CHECKPOINTS
from sweeper.trial.replay.onset import onset
from sweeper.trial.replay.recorded_run import RecordedRun
from sweeper.trial.resuming import own_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where it begins.

    Attributes:
        found: None: at the beginning, which is a pure function of the seed.
        notices: What was passed over and why, as sentences.
    """

    found: Found | None
    notices: tuple[str, ...]

    @property
    def after_window(self) -> int:
        """The last window that is not run again."""
        return 0 if self.found is None else self.found.window


def find_start(run: RecordedRun, *, windows: int | None) -> Start:
    """Returns the newest checkpoint from which at least so many windows are run again.

    One whose weights are not all finite is passed over: what went wrong had begun before it.

    Args:
        windows: Up to the last one on record; None: all from where what ended the trial began.
    """
    first = onset(run) if windows is None else run.last_window - windows + 1
    latest = max(first - 1, 0)
    notices: list[str] = []
    for found in _sound(run, latest, notices):
        if found.window < latest and windows is not None:
            notices.append(
                f"no checkpoint is left between window {found.window} and window {latest}, so the"
                f" replay begins after window {found.window}"
            )
        return Start(found=found, notices=tuple(notices))
    if latest > 0:
        notices.append(
            f"no sound checkpoint is left up to window {latest}, so the replay begins"
            " at the beginning"
        )
    return Start(found=None, notices=tuple(notices))


def _sound(run: RecordedRun, latest: int, notices: list[str]) -> Iterator[Found]:
    """Yields the sound checkpoints up to a window, the newest first; notes what others lack."""
    folders = [f for a in run.folders for f in checkpoint_folders(a.path / CHECKPOINTS)]
    for folder in sorted(folders, key=lambda f: int(f.name), reverse=True):
        if int(folder.name) > latest:
            continue
        try:
            found = own_checkpoint(read_checkpoint(folder), run.spec)
        except DamagedCheckpoint as error:
            notices.append(f"the checkpoint {folder} is passed over: {error}")
            continue
        if spoiled := found.snapshot.nonfinite_weights:
            notices.append(
                f"the checkpoint {folder} is passed over: values that are not finite are in"
                f" {len(spoiled)} of its tensors, the first being {spoiled[0]}"
            )
            continue
        yield found
