"""``python -m attentively`` is the command line."""

from attentively.cli import main

if __name__ == "__main__":
    main()
