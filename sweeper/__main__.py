"""`python -m sweeper`: the command line."""

from sweeper.cli.main import main

if __name__ == "__main__":
    main()
