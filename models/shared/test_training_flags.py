"""Flags that all trainers share."""

import argparse
from pathlib import Path

import pytest

from models.shared.distribution import ParallelMethods
from models.shared.training_flags import (
    Switch,
    TrainerParser,
    add_training_flags,
    check_training_flags,
    make_folders_for_results,
    seed,
)


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser()
    add_training_flags(parser)
    parser.add_argument("--on", action=Switch, default=False)
    return parser


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], False),
        (["--on"], True),
        (["--no-on"], False),
        (["--on=true"], True),
        (["--on=False"], False),
        (["--on", "0"], False),
        (["--on", "--no-on"], False),
    ],
)
def test_a_switch_has_the_forms_of_argparse_and_of_absl(parser, words, expected):
    assert parser.parse_args(words).on is expected


@pytest.mark.parametrize("words", [["--on=2"], ["--on="], ["--no-on=true"]])
def test_a_switch_refuses_what_is_no_truth_value(parser, words, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert "takes true or false" in capsys.readouterr().err


def test_shared_flags_have_their_values(parser):
    arguments = parser.parse_args(
        [
            "--distribute=none",
            "--mixed_precision=float16",
            "--model_dir=/tmp/model",
            "--resume",
            "--backup_freq=50",
            "--enable_tensorboard",
            "--step_history=/tmp/s",
            "--enable_time_history",
        ]
    )
    check_training_flags(parser, arguments)
    assert arguments == argparse.Namespace(
        distribute="none",
        mixed_precision="float16",
        model_dir=Path("/tmp/model"),
        resume=True,
        backup_freq=50,
        enable_tensorboard=True,
        step_history=Path("/tmp/s"),
        enable_time_history=True,
        on=False,
    )


@pytest.mark.parametrize("flag", ["--resume", "--enable_tensorboard"])
def test_what_needs_a_folder_says_so(parser, flag, capsys):
    with pytest.raises(SystemExit):
        check_training_flags(parser, parser.parse_args([flag]))
    assert f"{flag} needs a folder: add --model_dir=FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--backup_freq=0"], ["--backup_freq=daily"]])
def test_backups_are_made_at_epochs_or_after_steps(parser, words, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert "must be a whole number of at least 1" in capsys.readouterr().err


def test_a_switch_with_a_short_name_is_negated_by_its_long_one(parser, capsys):
    parser.add_argument("-short", "--long", action=Switch, default=True)
    assert not parser.parse_args(["--no-long"]).long
    with pytest.raises(SystemExit):
        parser.parse_args(["--no-hort"])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_seeds_are_those_that_generators_take():
    assert seed(str(2**32 - 1)) == 2**32 - 1
    for text in (str(2**32), "-1", "one"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"at least 0 and below 2\^32"):
            seed(text)


def test_folders_for_results_are_made_or_refused_before_the_training(tmp_path):
    def make(model_dir=None, step_history=None, **more):
        flags = argparse.Namespace(model_dir=model_dir, step_history=step_history, **more)
        make_folders_for_results(flags)

    make()
    for _ in range(2):
        make(tmp_path / "a/b", tmp_path / "c/steps.json")
    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "c").is_dir()
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(SystemExit, match=r"--model_dir=.* cannot be made or written into"):
            make(folder)
    with pytest.raises(SystemExit, match=r"--step_history=.* cannot be made or written into"):
        make(step_history=tmp_path / "file/steps.json")
    with pytest.raises(SystemExit, match="is a folder: name a file"):
        make(step_history=tmp_path)
    with pytest.raises(SystemExit, match=r"--profile_dir=.* cannot be made or written into"):
        make(profile_dir=tmp_path / "file/profile")


def test_a_wrong_flag_is_told_in_one_line(capsys):
    parser = TrainerParser(prog="train.py")
    add_training_flags(parser)
    with pytest.raises(SystemExit) as ending:
        parser.parse_args(["--distribute=all"])
    assert ending.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("train.py: error: argument --distribute: invalid choice: 'all'")
    assert line.endswith("`--help` lists all flags.")


def test_tensorboard_is_missed_before_the_training(parser, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        check_training_flags(
            parser, parser.parse_args(["--enable_tensorboard", "--model_dir=/tmp/model"])
        )
    assert "`pip install tensorboard`" in capsys.readouterr().err


def test_the_word_of_a_flag_is_the_method(parser):
    assert parser.parse_args(["--distribute=none"]).distribute == ParallelMethods.NONE
