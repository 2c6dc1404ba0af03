"""Our models by name: what each may be told, and which nodes it reads.

All this is known without torch, to answer a mistake at once: where a class is not loaded, its settings are read from
the source.
"""

from __future__ import annotations

import ast
import inspect
from collections import UserDict
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

from gln.errors import GLNError, instead
from gln.graphs.check import check_choice, check_whole, whole_number
from gln.graphs.record import Graph
from gln.registry import parse_spec

if TYPE_CHECKING:
    from torch import nn

Settings = dict[str, Any]
Size = Literal["published", "small"]
Lengths = Literal["local", "absolute", "fine"]
Variant = Literal["equations", "stabilised", "released"]

APART = ("self", "__class__", "x_mean", "x_std")  # of what a model is built with; the rest are its settings
# The least that each setting of GLN may be, and the most: a model may come from anybody.
LIMITS = {"width": (1, 2**16), "pair_width": (1, 2**16), "kernels": (1, 2**10), "steps": (1, 2**10)}
LIMITS |= {"candidates": (1, 2**16), "proposals": (0, 2**16), "index_channels": (0, 2**10)}
LIMITS |= {"edge_types": (1, 2**10), "node_types": (0, 2**16), "moments": (1, 2**16)}
FLAGS = ("shared", "sparse", "mixing", "feedback", "directed", "edge_weights", "directions")  # of GLN
MOST_WEIGHTS = 10**9  # in the released dense layer: 4 GB, or 16 GB with gradients and Adam's moments
WORDS = {"pos": "positions (pos)", "x": "features (x)"}


def check_gln(given: Settings) -> Settings:
    """The settings of a ``GLN``, whole numbers as Python's."""
    _check_inputs(given)
    config = dict(given)
    for name, (least, most) in LIMITS.items():
        config[name] = check_whole("GLN", name, given[name], least)
        if config[name] > most:
            raise GLNError(f"GLN got {name}={config[name]}; expected at most {most}.")
    width, pair_width, kernels = (config[name] for name in ("width", "pair_width", "kernels"))
    if width % kernels or pair_width % kernels:
        raise GLNError(
            f"Got width={width}, pair_width={pair_width}; both must be multiples of kernels={kernels}."
        )
    if config["index_channels"] % 2:
        raise GLNError(
            f"GLN got index_channels={config['index_channels']}; expected 0 or a positive even number."
        )
    _check_flags("GLN", config, FLAGS)
    if config["in_channels"] % config["moments"]:
        raise GLNError(
            f"GLN got in_channels={config['in_channels']} and moments={config['moments']}; expected as many values at "
            "every moment."
        )
    check_choice("GLN", "lengths", config["lengths"], get_args(Lengths))
    return config


def check_flow(given: Settings) -> Settings:
    """The settings of a ``GraphFlow``; those of its network, the network checks."""
    config = given | {
        name: check_whole("GraphFlow", name, given[name], least)
        for name, least in (("in_channels", 0), ("pos_channels", 0), ("edge_types", 1))
    }
    check_sampling("GraphFlow", given)
    _check_flags("GraphFlow", config, ("resistance", "directed", "late"))
    chances = given["marginal"]
    if chances is not None:
        fit = len(chances) == 1 + config["edge_types"] and all(0 <= chance <= 1 for chance in chances)
        if not fit or abs(sum(chances) - 1) > 1e-3:
            raise GLNError(
                f"GraphFlow got marginal={chances}; expected {1 + config['edge_types']} chances whose sum is 1: of no "
                "edge, and of each type."
            )
    return config


def check_sampling(owner: str, given: Settings) -> None:
    """Refuse how graphs cannot be drawn, as far as ``given`` says it."""
    for name in ("steps", "sampling_steps"):
        if name in given:
            check_whole(owner, name, given[name], 1)
    for name, least in (("stochasticity", 0), ("start", 0), ("lateness", 1)):
        if name in given and not least <= given[name] < float("inf"):
            raise GLNError(f"{owner} got {name}={given[name]!r}; expected a number of at least {least}.")
    _check_flags(owner, given, ("evenly",) if "evenly" in given else ())
    if given.get("start", 0) >= 1:
        raise GLNError(f"{owner} got start={given['start']!r}; expected a time below 1.")


def check_set2graph(given: Settings) -> Settings:
    """The settings of a ``Set2Graph``."""
    _check_inputs(given)
    check_choice("Set2Graph", "size", given["size"], get_args(Size))
    _check_flags("Set2Graph", given, ("total", "directed"))
    return given | {"edge_types": check_whole("Set2Graph", "edge_types", given["edge_types"], 1)}


def check_paper(options: Settings) -> Settings:
    """The options of a ``PaperGLN`` with every default filled in, so that a saved config is complete."""
    variant, steps, width, n = (options[name] for name in ("variant", "steps", "width", "nodes"))
    check_choice("PaperGLN", "variant", variant, get_args(Variant))
    released = variant == "released"
    if steps is not None:
        steps = check_whole("PaperGLN", "steps", steps, 1)
    if width is None:
        width = [32, 16, 8] if released and steps is None else 32
    widths = [width] * (5 if steps is None else steps) if isinstance(width, int) else list(width)
    own = {"symmetric": not released, "steps": len(widths)}
    own |= dict.fromkeys(("m_bias", "normalise", "identity_m"), variant == "stabilised")
    unset = {name: value for name, value in own.items() if options[name] is None}
    config = options | unset | {"width": widths}

    counts = [n, options["in_channels"], options["kernels"], len(widths), *widths]
    if config["steps"] != len(widths) or any((whole_number(count) or 0) < 1 for count in counts):
        raise GLNError(
            f"Got nodes={n}, in_channels={options['in_channels']}, kernels={options['kernels']}, steps={steps} "
            f"and width={width}; expected whole numbers of at least 1, and as many widths as steps."
        )
    if isinstance(options["init"], str) and options["init"] != "glorot":
        raise GLNError(f"Got init={options['init']!r}; expected a standard deviation, or glorot.")
    _check_flags("PaperGLN", config, ("shared", "symmetric", "m_bias", "normalise", "identity_m"))
    if options["shared"] and len(set(widths)) > 1:
        raise GLNError(f"Got shared=True and widths {widths}; one block for all steps needs one width.")
    if released and (config["m_bias"] or config["normalise"]):
        raise GLNError(
            "The released variant has its own biases and normalisation; leave out m_bias and normalise, or use "
            "variant='stabilised'."
        )
    if released and n**4 > MOST_WEIGHTS:
        raise GLNError(
            f"The released variant at nodes={n} ends in a dense layer of n⁴ = {n**4:,} weights; expected at most "
            f"{MOST_WEIGHTS:,} (nodes={int(MOST_WEIGHTS**0.25)}): use variant='stabilised', which has no such layer."
        )
    return config


def check_steps(steps: int | None, trained: int, shared: bool) -> int:
    """How many steps to run: as ``trained``, or fewer; weights that all steps share allow any number."""
    wanted = trained if steps is None else whole_number(steps)
    if wanted is None or wanted < 1 or (wanted > trained and not shared):
        raise GLNError(
            f"Got steps={steps!r}; expected 1 to {trained}, the steps that have weights, or a model trained with "
            "shared=True."
        )
    return wanted


CHECKS: dict[str, Callable[[Settings], Settings]] = {
    "GLN": check_gln,
    "GraphFlow": check_flow,
    "PaperGLN": check_paper,
    "Set2Graph": check_set2graph,
}


def _check_inputs(given: Settings) -> None:
    features, positions = given["in_channels"], given["pos_channels"]
    if features < 0 or positions < 0 or features + positions < 1:
        raise GLNError(
            f"Got in_channels={features} and pos_channels={positions}; a node needs a position or a feature, "
            "or train GraphFlow."
        )


def _check_flags(owner: str, given: Settings, names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(given[name], bool):
            raise GLNError(f"{owner} got {name}={given[name]!r}; expected true or false.")


class Models(UserDict[str, Any]):
    """Names and classes; of ours at first the modules, whose class is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[nn.Module]:
        if not self._is_loaded(name):
            self.data[name] = getattr(import_module(self.data[name]), name)
        return self.data[name]

    def _is_loaded(self, name: str) -> bool:
        return not isinstance(self.data[name], str)

    def summary(self, name: str) -> str:
        """The first line of its docstring."""
        text = self[name].__doc__ if self._is_loaded(name) else ast.get_docstring(self._source(name))
        return (text or "").strip().split("\n")[0]

    def settings(self, name: str) -> dict[str, Any]:
        """Every setting and its default; ``inspect.Parameter.empty`` without one."""
        if self._is_loaded(name):
            given = inspect.signature(self[name]).parameters
            return {setting: parameter.default for setting, parameter in given.items()}
        body = self._source(name).body
        init = next(part for part in body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
        names = [argument.arg for argument in init.args.args[1:]]
        without = len(names) - len(init.args.defaults)
        defaults = [inspect.Parameter.empty] * without + [*map(ast.literal_eval, init.args.defaults)]
        return dict(zip(names, defaults, strict=True))

    def _source(self, name: str) -> ast.ClassDef:
        spec = find_spec(self.data[name])
        assert spec is not None
        text = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
        return next(part for part in ast.parse(text).body if getattr(part, "name", None) == name)

    def find(self, text: str, others: Iterable[str] = ()) -> tuple[str, dict[str, Any]]:
        """The name of a model, whatever its case, and its settings, from ``GLN:width=64``; refuse what is unknown.

        ``others`` are further names that would do.
        """
        asked, settings = parse_spec(text)
        name = next((name for name in self if name.lower() == asked.lower()), None)
        if name is None:
            raise GLNError(f"There is no model {asked!r}; {instead(asked, [*sorted(self), *others])}")
        known = self.settings(name)
        for setting in settings:
            if setting not in known:
                raise GLNError(f"{name} has no setting {setting!r}; {instead(setting, known)}")
        home = self[name].__module__ if self._is_loaded(name) else self.data[name]
        if name in CHECKS and home.startswith("gln.models."):
            # What its graphs determine is not known yet.
            CHECKS[name](known | {key: 1 for key in ("nodes", "in_channels") if key in known} | settings)
        return name, settings


@runtime_checkable
class ChecksNodes(Protocol):
    """Says itself which nodes it cannot read; of other models, ``pos_channels`` and ``in_channels`` say it."""

    def misfit(self, nodes: int, pos_width: int, x_width: int) -> str | None: ...


def misfit(model: Any, graph: Graph) -> str | None:
    """Why ``model`` cannot read the nodes of ``graph``, as the end of a sentence; ``None`` if it can."""
    if isinstance(model, ChecksNodes):
        return model.misfit(graph.num_nodes, *graph.widths)
    return unfit(getattr(model, "config", {}), graph)


def unfit(config: Settings, graph: Graph) -> str | None:
    """The same for a model with this ``config``, which need not be loaded."""
    for name, (got, wanted) in _inputs(config, graph).items():
        tables = f"of a table, --{name} names the columns."
        if wanted and not got:
            return f"it has no {WORDS[name]}, but the model was trained with {wanted} per node; {tables}"
        if wanted and got != wanted:
            return f"it has {got} {WORDS[name]} per node, but the model was trained with {wanted}; {tables}"
    return None


def input_widths(model: Any) -> tuple[int, int] | None:
    """How many positions and features a model reads of a node; ``None`` if its config does not say both."""
    config = getattr(model, "config", {})
    pos, x = config.get("pos_channels"), config.get("in_channels")
    return None if pos is None or x is None else (pos, x)


def unread(model: Any, graph: Graph) -> list[str]:
    """Which of ``pos`` and ``x`` the graph has but the model does not read."""
    if isinstance(model, ChecksNodes):
        return []
    inputs = _inputs(getattr(model, "config", {}), graph)
    return [name for name, (got, wanted) in inputs.items() if got and wanted == 0]


def unseen(model: Any, graph: Graph) -> list[int]:
    """The columns of ``x``, such as elements, that some node has and no node of the training graphs had."""
    known = ((getattr(model, "training_facts", None) or {}).get("noise") or {}).get("x")
    if known is None or graph.x is None or len(known["mean"]) != graph.x.shape[1]:
        return []
    used = (graph.x != 0).any(0).tolist()
    never = [mean == 0 and std == 0 for mean, std in zip(known["mean"], known["std"], strict=True)]
    return [number for number, both in enumerate(zip(used, never, strict=True)) if all(both)]


def _inputs(config: Settings, graph: Graph) -> dict[str, tuple[int, int | None]]:
    """What nodes have and what the model wants; ``None`` where its config does not say."""
    pos, x = graph.widths
    return {"pos": (pos, config.get("pos_channels")), "x": (x, config.get("in_channels"))}
