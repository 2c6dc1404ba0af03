"""The command line as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

import gln
from tests.conftest import run


def test_list_names_every_family_with_its_defaults(capsys: pytest.CaptureFixture) -> None:
    assert run("list") == 0
    out = capsys.readouterr().out
    for word in ("community", "surfaces", "figures", "delaunay", "points=100", "communities=2"):
        assert word in out


@pytest.mark.parametrize(
    "spec", ["surfaces:points=16", "figures:side=5", "delaunay:points=9", "community:size=4"]
)
def test_show_draws_a_picture(tmp_path: Path, spec: str) -> None:
    assert run("show", spec, "-o", str(tmp_path / "new" / "a.png"), "--count", "2") == 0
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "nowhere"], "no family 'nowhere'"),
        (["show", "delaunay", "-o", "a.bmp"], ".png, .pdf or .svg"),
        (["show", "delaunay", "--count", "0"], "count=0"),
        (["train", "delaunay", "-o", "run", "--model", "GNN"], "no model 'GNN'"),
        (["train", "delaunay", "-o", "run", "--model", "GLN:depth=3"], "no setting 'depth'"),
        (["evaluate", "nowhere", "--on", "delaunay"], "no folder 'nowhere'"),
        (["generate", "nowhere", "-o", "a.txt"], ".safetensors"),
        (["train", "delaunay", "-o", "run", "--count", "0"], "count=0"),
        (["generate", "delaunay", "-o", "a.png", "--against", "nope"], "no family 'nope'"),
        (["evaluate", "delaunay", "--on", "delaunay:points=9", "--count", "2", "--steps", "0"], "steps=0"),
        (["train", "delaunay:points=5", "-o", "run", "--model", "GLN:width=abc"], "width='abc'"),
        (["train", "delaunay", "-o", "run", "--model", "GLN:width=33"], "multiples of kernels=4"),
        (
            ["train", "delaunay", "-o", "run", "--model", "GLN:shared=abc"],
            "shared='abc'; expected true or false",
        ),
        (
            ["train", "delaunay", "-o", "run", "--model", "PaperGLN:width=abc"],
            "width=abc; expected whole numbers",
        ),
        (["train", "delaunay", "-o", "run", "--model", "Set2Graph:size=big"], "size='big'; choose from"),
        (["train", "delaunay", "-o", "run", "--devices", "abc"], "devices='abc'"),
        (["train", "delaunay", "-o", "run", "--count", "2"], "at least 3 graphs"),
        (["predit", "delaunay"], "no command 'predit'; did you mean predict?"),
        (["blah"], "no command 'blah'; choose from list, show"),
        (["bench", "mmd", "-o", "a.json"], "run: python -m benchmarks NAME"),
        (["reproduce", "--help"], "run: python -m reproduction EXPERIMENT"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("gln: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_train_evaluate_generate_and_a_second_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder, family = str(tmp_path / "run"), "delaunay:points=6"
    words = ["train", family, "-o", folder, "--model", "GLN:width=8,pair_width=8,steps=2", "--count", "12"]
    words += ["--epochs", "1", "--accelerator", "cpu", "--no-progress"]
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert "9 / 1 / 2 graphs" in out
    assert "IoU ↑" in out
    assert "MMD squared, biased" in out

    assert run(*words) == 2
    assert "resume" in capsys.readouterr().err
    assert run(*words, "--resume") == 0

    assert run("evaluate", folder, "--on", family, "--count", "3") == 0
    assert "dice (F1) ↑" in capsys.readouterr().out

    pictures = [str(tmp_path / name) for name in ("noise.png", "noise.safetensors")]
    for picture in pictures:
        assert run("generate", folder, "-o", picture, "--count", "3", "--against", family) == 0
        out = capsys.readouterr().out
        assert "distinct graphs ↑" in out
        assert "floor" in out
        assert Path(picture).stat().st_size > 100
    for picture, code in zip(
        pictures, (0, 2), strict=True
    ):  # a picture is replaced, graphs only with --force
        assert run("generate", folder, "-o", picture, "--count", "3") == code
    assert run("generate", folder, "-o", pictures[1], "--count", "3", "--force") == 0


def test_the_version_is_said(capsys: pytest.CaptureFixture) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gln {gln.__version__}\n"


def test_ctrl_c_is_one_word_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gln.commands.cli.app.cli", interrupt)
    assert run("list") == 130
    assert capsys.readouterr().err == "gln: interrupted.\n"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("gln.commands.cli.app.cli", fail)
    assert run("list") == 2
    assert "not enough memory" in capsys.readouterr().err


def test_a_fault_of_ours_is_not_called_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("gln.commands.cli.app.cli", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        run("list")


def test_list_says_what_a_shipped_model_reads(capsys: pytest.CaptureFixture) -> None:
    assert run("list") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "figures reads 2 positions and 3 features per node" in lines


@pytest.mark.parametrize(
    "command", ["list", "show", "view", "train", "report", "evaluate", "predict", "generate"]
)
def test_help_and_wrong_values_are_in_words(command: str, capsys: pytest.CaptureFixture) -> None:
    assert run(command, "--help") == 0
    help_ = capsys.readouterr().out
    assert "(default: )" not in help_
    assert "{None}" not in help_
    if command == "train":
        assert run("train", "delaunay", "-o", "run", "--clip", "abc") == 2
        error = " ".join(capsys.readouterr().err.split())
        assert "got 'abc'; expected a number or none" in error
        assert "NoneType" not in error
