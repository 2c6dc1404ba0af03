"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys

from tyro.extras import SubcommandApp

from gln import __version__
from gln.commands.benchmarks import bench
from gln.commands.evaluate import evaluate, generate
from gln.commands.look import list_, report, show, view
from gln.commands.predict import predict
from gln.commands.reproduce import reproduce
from gln.commands.train import train
from gln.errors import GLNError, in_words, polite_kill

app = SubcommandApp()
app.command(name="list")(list_)
for _command in (show, view, train, report, evaluate, predict, generate, reproduce, bench):
    app.command(_command)


def main() -> None:
    """Run a command; a user's mistake prints one sentence and exits with code 2, Ctrl-C exits with code 130."""
    if sys.argv[1:] == ["--version"]:
        print(f"gln {__version__}")
        return
    try:
        with polite_kill():
            app.cli(
                prog="gln", description="Predict the graph over a set of nodes from the nodes themselves."
            )
        sys.stdout.flush()
    except GLNError as error:
        sys.exit(_complain(str(error), 2))
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output, such as head, has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        sys.exit(_complain(in_words(error), 2))
    except (MemoryError, RuntimeError) as error:
        from gln.workflows.methods import out_of_memory

        if not out_of_memory(error):
            raise
        sys.exit(_complain("not enough memory; use fewer or smaller graphs.", 2))
    except KeyboardInterrupt as stop:
        sys.exit(_complain(str(stop) or "interrupted.", 130))


def _complain(message: str, code: int) -> int:
    print(f"gln: {message}", file=sys.stderr)
    return code
