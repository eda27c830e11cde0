"""`python -m sweeper` and the command `sweeper`: the command line."""

import sys

from sweeper.cli.streams import make_streams_safe


def main() -> None:
    """Runs the command line; Ctrl-C while it is still being loaded ends it like any other."""
    make_streams_safe()
    try:
        from sweeper.cli.main import main as command_line  # noqa: PLC0415 - loading takes a second
    except KeyboardInterrupt:
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
