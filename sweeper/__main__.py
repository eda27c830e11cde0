"""`python -m sweeper` and the command `sweeper`: the command line."""

import sys


def main() -> None:
    """Runs the command line; Ctrl-C while it is still being loaded ends it like any other."""
    try:
        from sweeper.cli.main import main as command_line  # noqa: PLC0415 - loading takes a second
    except KeyboardInterrupt:
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
