"""Run the command line with ``python -m attentively``."""

from attentively.cli import main

if __name__ == "__main__":
    main()
