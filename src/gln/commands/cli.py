"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tyro.extras import SubcommandApp

from gln import __version__
from gln.commands.evaluate import evaluate, generate
from gln.commands.export import export, play
from gln.commands.look import list_, report, show, view
from gln.commands.predict import predict
from gln.commands.train import train
from gln.errors import GLNError, escaped, in_words, instead, polite_kill

app = SubcommandApp()
app.command(name="list")(list_)
OTHERS = (show, view, train, report, evaluate, predict, generate, export, play)
for _command in OTHERS:
    app.command(_command)
NAMES = ("list", *(command.__name__ for command in OTHERS))
WHERE = "moved out of the package; in a clone of the repository run: python -m"
MOVED = {
    "bench": f"benchmarks {WHERE} benchmarks NAME",
    "reproduce": f"the tables and figures of the paper {WHERE} reproduction EXPERIMENT",
}


def main() -> None:
    """Run a command of ``gln``."""
    if sys.argv[1:] == ["--version"]:
        print(f"gln {__version__}")
        return
    if len(sys.argv) > 1 and sys.argv[1] in MOVED:
        print(f"gln: {MOVED[sys.argv[1]]}", file=sys.stderr)
        sys.exit(2)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and sys.argv[1] not in NAMES:
        hint = instead(sys.argv[1], NAMES)
        print(f"gln: there is no command {sys.argv[1]!r}; {hint}", file=sys.stderr)
        sys.exit(2)
    words = "Predict the graph over a set of nodes from the nodes themselves."
    in_sentences("gln", lambda: app.cli(prog="gln", description=words))


def in_sentences(program: str, command: Callable[[], object]) -> None:
    """Run a command; a user's mistake prints one sentence and exits with code 2, Ctrl-C exits with code 130."""

    def complain(message: str, code: int) -> int:
        print(f"{program}: {escaped(message)}", file=sys.stderr)
        return code

    try:
        with polite_kill():
            command()
        sys.stdout.flush()
    except GLNError as error:
        sys.exit(complain(str(error), 2))
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output, such as head, has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        sys.exit(complain(in_words(error), 2))
    except (MemoryError, RuntimeError) as error:
        from gln.workflows.methods import out_of_memory

        if not out_of_memory(error):
            raise
        sys.exit(complain("not enough memory; use fewer or smaller graphs.", 2))
    except KeyboardInterrupt as stop:
        sys.exit(complain(str(stop) or "interrupted.", 130))
