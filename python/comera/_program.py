"""The program `comera` that the package brings."""
import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).parent / "bin" / "comera"


def main() -> None:
    """The command `comera`: becomes the program."""
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
