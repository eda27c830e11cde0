"""A run of a small study with the view of `sweeper run`: terminal_run.py FOLDER."""

import importlib.util
import sys
from pathlib import Path

from sweeper.cli.live import watching
from sweeper.cli.output import terminal_silencer
from sweeper.cli.run import print_end
from sweeper.sweep.stop_request import StopRequest, listening

SMALL_STUDY = Path(__file__).parents[1] / "sweep" / "small_study.py"


def main():
    spec = importlib.util.spec_from_file_location("small_study", SMALL_STUDY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    study = module.SmallStudy(sys.argv[1])
    stop = StopRequest()
    silence = terminal_silencer()
    with listening(stop, on_hang_up=silence), watching(sys.stderr, stop) as observer:
        end = study.run(observer=observer, stop=stop)
    print_end(end)
    return int(end.status)


if __name__ == "__main__":
    sys.exit(main())
