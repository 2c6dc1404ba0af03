"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from tyro.extras import SubcommandApp

from gln import __version__
from gln.commands.evaluate import evaluate, export, generate
from gln.commands.look import list_, play, report, show, view
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
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if sys.argv[1:] == ["--version"]:
        print(f"gln {__version__}")
    elif word in MOVED:
        stop("gln", MOVED[word], 2)
    elif word and not word.startswith("-") and word not in NAMES:
        stop("gln", f"there is no command {word!r}; {instead(word, NAMES)}", 2)
    else:
        words = "Predict the graph over a set of nodes from the nodes themselves."
        in_sentences("gln", lambda: app.cli(prog="gln", description=words))


def stop(program: str, message: str, code: int) -> NoReturn:
    """Exit with ``code`` after one sentence."""
    print(f"{program}: {escaped(message)}", file=sys.stderr)
    sys.exit(code)


def in_sentences(program: str, command: Callable[[], object]) -> None:
    """Run a command; a user's mistake prints one sentence and exits with code 2, Ctrl-C exits with code 130."""
    try:
        with polite_kill():
            command()
        sys.stdout.flush()
    except GLNError as error:
        stop(program, str(error), 2)
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        stop(program, in_words(error), 2)
    except (MemoryError, RuntimeError) as error:
        from gln.workflows.methods import out_of_memory

        if not out_of_memory(error):
            raise
        stop(program, "not enough memory; use fewer or smaller graphs.", 2)
    except KeyboardInterrupt as interrupt:
        stop(program, str(interrupt) or "interrupted.", 130)
