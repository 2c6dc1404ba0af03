"""Saved models: ``model.safetensors`` with the weights and ``model.json`` with all else, in one folder.

``model.json`` holds the class (a name in ``gln.models.MODELS``, never a path to code), the config that rebuilds it, the
decision threshold, versions, and facts about the training. Reading either file runs no code, whoever wrote it.

Every file of weights is a safetensors file: a JSON header, then raw numbers. (``torch.load`` is not used, not even with
``weights_only=True``: before torch 2.6 that could be made to run code, and this package allows 2.4.)
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from gln import models
from gln.errors import GLNError, instead
from gln.files import check_format, digest_of, open_regular, read_safetensors, write_atomically
from gln.later import safetensors, torch
from gln.storage.facts import (
    Facts,
    Misfit,
    accepted,
    as_kind,
    check_threshold,
    clear_disk_errors,
    naming_misfits,
    parse_facts,
    read_facts,
    to_json,
    write_json,
)
from gln.storage.provenance import commit, versions

if TYPE_CHECKING:
    from torch import Tensor, nn

    Built = TypeVar("Built", bound=nn.Module)

FORMAT = "gln model 1"
# Written by versions that did not seal files: a model has its seal in model.json.
UNSEALED = ("gln model 1", "gln checkpoint 1")
EXPORTED = ".onnx"
SHIPPED = Path(__file__).parent.parent / "shipped"  # trained models of the package, one folder each


class Spread(TypedDict):
    mean: list[float]
    std: list[float]


class Noise(TypedDict):
    """What :func:`gln.graphs.features.feature_noise` found."""

    sizes: list[list[int]]
    pos: NotRequired[Spread]
    x: NotRequired[Spread]


# Settings that models no longer have, at the value with which nothing is lost.
GONE = (("GraphFlow", "walks", 0),)


class Training(TypedDict, total=False):
    """How a model was trained."""

    epoch: int | None
    val_iou: float | None
    seed: int
    noise: Noise | None
    names: dict[str, list[str]]
    surface: bool  # whether its graphs had faces
    confidence: dict[str, list[float]]  # of molecules and bonds: :mod:`gln.decoding.molecules`


class Saved(TypedDict):
    """What every model.json holds."""

    format: str
    config: Facts
    weights_sha256: str


class SavedModel(Saved):
    model: str
    threshold: float
    training: NotRequired[Training | None]


K = TypeVar("K", bound=Saved)


def save(model: nn.Module, path: Path | str) -> Path:
    """Write ``model``, with its threshold and the facts about its training, into the folder ``path``.

    Args:
        model: any model with a ``config`` from which ``type(model)(**config)`` rebuilds it.
        path: the folder, created if needed; a model already in it is replaced.
    """
    check_model(model)
    folder = Path(path)
    write_model(model, model.state_dict(), folder)
    return folder


def write_model(
    model: nn.Module, tensors: Mapping[str, Tensor], folder: Path, more: Mapping[str, Any] | None = None
) -> None:
    """Write ``model`` with ``tensors`` as its weights, and ``more`` facts beside its own."""
    facts = {
        "model": type(model).__name__,
        "config": model.config,
        "threshold": float(getattr(model, "threshold", 0.5)),
        "training": getattr(model, "training_facts", None),
        **(more or {}),
    }
    write_saved(folder, tensors, facts)


def write_saved(folder: Path, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """Write ``tensors``, then ``facts`` with the fingerprint that ties the two files together."""
    with clear_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "model.safetensors"
    write_tensors(weights, tensors, {"format": FORMAT})
    tied = {"weights_sha256": _sha256(weights)}
    made = {"versions": versions(), "commit": commit()}
    write_json(folder / "model.json", {"format": FORMAT, **facts, **tied, **made})


def load_model(path: Path | str) -> nn.Module:
    """Load the model saved in a folder, such as a run folder, a shipped one by its name, or an exported .onnx file."""
    folder = find_saved(path)
    if folder.suffix == EXPORTED:
        from gln.storage.onnx import load_onnx  # here, as few need it

        return load_onnx(folder)
    expected = "a model written by gln.save or a run (gln.load also reads baselines)"
    facts, tensors = read_saved(folder, expected, SavedModel)
    name, path = facts["model"], folder / "model.json"
    if name not in models.MODELS:
        raise GLNError(
            f"{path} names the model class {name[:40]!r}, but known are {', '.join(models.MODELS)}; "
            "for a class of your own, set gln.models.MODELS[name] to it before loading."
        )
    config = {key: value for key, value in facts["config"].items() if (name, key, value) not in GONE}
    model = build_for(tensors, models.MODELS[name], config, path)
    load_weights(model, tensors, folder / "model.safetensors")
    annotate(model, check_threshold(float(facts["threshold"]), path), facts.get("training"))
    return model.eval()


def saved_facts(path: Path | str) -> Facts:
    """What is written beside the weights of a saved model or baseline; nothing is built."""
    folder = find_saved(path)
    if folder.suffix != EXPORTED:
        return read_facts(folder / "model.json")
    from gln.storage.onnx import open_graph

    return open_graph(folder)[1]


def read_saved(folder: Path, expected: str, kind: type[K]) -> tuple[K, dict[str, Tensor]]:
    """The facts and tensors that :func:`write_saved` wrote; ``expected`` says what they are."""
    path, weights = folder / "model.json", folder / "model.safetensors"
    found = read_facts(path)
    check_format(found.get("format"), FORMAT, path, expected)
    facts = as_kind(found, kind, path)
    tensors, _ = read_tensors(weights)
    if _sha256(weights) != facts["weights_sha256"]:
        raise GLNError(
            f"{weights} is not the file that the model.json beside it was written for; "
            "copy both from the same save, or try again if a run is writing them right now."
        )
    return facts, tensors


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def annotate(model: nn.Module, threshold: float, training: Mapping[str, Any] | None) -> None:
    """Attach what training found besides the weights to ``model``; :func:`save` stores it."""
    model.threshold = threshold  # type: ignore[assignment]
    model.training_facts = training  # type: ignore[assignment]


def shipped() -> list[str]:
    """Names of the trained models that come with the package."""
    return sorted(entry.parent.name for entry in SHIPPED.glob("*/model.json"))


def check_model(model: Any) -> None:
    """Refuse anything that cannot be trained and saved."""
    if not isinstance(model, torch.nn.Module) or not isinstance(getattr(model, "config", None), dict):
        raise GLNError(
            f"Got a {type(model).__name__}; expected an nn.Module with a config dict that rebuilds it."
        )


def find_saved(path: Path | str) -> Path:
    """The folder of a saved model: ``path`` itself, the one that holds this file, or a shipped model of that name.

    A model exported to ONNX is a file.
    """
    folder = Path(path)
    if folder.suffix == EXPORTED and folder.exists():
        return folder
    if folder.suffix in (".safetensors", ".json") and folder.is_file():
        folder = folder.parent
    if (folder / "model.json").exists():
        return folder
    if str(path) in shipped():  # a folder of that name may hold something else, such as the user's data
        return SHIPPED / str(path)
    if folder.is_dir():
        raise GLNError(
            f"{folder} holds no model.json; expected a saved model, or a run after its first epochs."
        )
    known = instead(str(path), shipped())
    raise GLNError(f"There is no folder {str(path)!r} and no shipped model of that name; {known}")


def build_for(tensors: Mapping[str, Tensor], make: Callable[..., Built], config: Facts, path: Path) -> Built:
    """``make(**config)``, a network for the weights ``tensors``.

    A config from ``path``, whoever wrote it, may ask for more than any machine has. So its values are checked first,
    then the network is outlined without memory and compared with the weights, and only then it is built.
    """
    try:
        with naming_misfits(path):
            config = accepted(make, config)
        with _at_most(2 * len(tensors) + 100), torch.device("meta"):
            outline = make(**config)
        check_weights(outline, tensors, path.with_name("model.safetensors"))
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are overwritten
            return make(**config)
    except GLNError:
        raise
    except Exception as error:
        raise GLNError(
            f"{path} holds a config that {make.__name__} does not accept ({error}); use the one it was saved with."
        ) from None


@contextmanager
def _at_most(count: int) -> Iterator[None]:
    """Let this thread build no network of more than ``count`` weights: a number in a config may ask for millions."""
    thread, found = threading.get_ident(), 0

    def register(module: nn.Module, name: str, weight: object) -> None:
        nonlocal found
        found += threading.get_ident() == thread
        if found > count:
            raise Misfit("it asks for more weights than there are")

    hook = torch.nn.modules.module.register_module_parameter_registration_hook(register)
    try:
        yield
    finally:
        hook.remove()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON ``facts`` to ``path`` atomically; if the disk is full, the old file stays."""
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    # One word of metadata, as safetensors writes several in any order.
    sealed = {"gln": to_json(facts | {"sha256": _seal(facts, whole)})}
    with clear_disk_errors(path):
        write_atomically(path, safetensors.save(whole, metadata=sealed))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Facts]:
    """Read the tensors and facts of a file written by :func:`write_tensors`; a single changed bit is noticed."""
    try:
        tensors, header = read_safetensors(path)
    except OSError:  # FileNotFoundError, PermissionError, IsADirectoryError
        raise GLNError(f"{path} cannot be read; expected a file of weights, check the path.") from None
    except ValueError:
        raise GLNError(
            f"{path} is not a complete safetensors file: it is truncated or of another kind; copy it again or "
            "use another."
        ) from None
    if "gln" not in header:
        raise GLNError(f"{path} is a safetensors file that gln did not write; expected one saved by gln.")
    facts = parse_facts(header["gln"], path)
    seal = facts.pop("sha256", None)
    if seal is None and facts.get("format") in UNSEALED:
        return tensors, facts
    if seal != _seal(facts, tensors):
        raise GLNError(f"{path} is damaged: it is not what was written; copy it again or use another.")
    return tensors, facts


def _seal(facts: Facts, tensors: Mapping[str, Tensor]) -> str:
    """A hash of all that a file holds."""
    return hashlib.sha256(f"{to_json(facts)}{digest_of(tensors)}".encode()).hexdigest()


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load ``tensors`` into ``model``, or say which of them does not fit."""
    check_weights(model, tensors, path)
    model.load_state_dict(dict(tensors))


def check_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse ``tensors`` of other names, shapes or kinds of numbers than the weights of ``model``."""
    wanted = model.state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        ours, theirs = (_outline(group.get(name)) for group in (wanted, tensors))
        if ours != theirs:
            raise GLNError(
                f"{path} does not match the config of {type(model).__name__}: {name} is {theirs} in the "
                f"file, {ours} in the model; use the config that these weights were saved with."
            )


def _outline(tensor: Tensor | None) -> str:
    """The shape, and the type unless it is a floating-point one: weights may be kept in any precision."""
    if tensor is None:
        return "absent"
    return f"{list(tensor.shape)}{'' if tensor.is_floating_point() else f' of {tensor.dtype}'}"
