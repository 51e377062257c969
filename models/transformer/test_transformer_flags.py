"""Flags have the names and defaults of the original, and nonsense is refused in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.transformer import flags as transformer_flags
from models.transformer.flags import params_of, parse_flags, set_gpu_threads
from models.transformer.params import PARAM_SETS

DEFAULTS = {
    "train_epochs": 1,
    "epochs_between_evals": 1,
    "batch_size": None,
    "param_set": "big",
    "max_length": 256,
    "vocab_file": None,
    "bleu_source": None,
    "bleu_ref": None,
    "decode_batch_size": 32,
    "decode_max_length": 97,
    "num_eval_sentences": 3000,
    "auto_data_dist": True,
    "synthetic_data": True,
    "enable_tensorboard": False,
    "enable_profiler": False,
    "logging_freq": 10,
    "print_freq": 50,
    "enable_metrics_in_training": False,
    "enable_time_history": True,
    "enable_checkpointing": True,
    "tf_gpu_thread_mode": None,
    "per_gpu_thread_count": 0,
    "datasets_num_private_threads": None,
    "data_dir": Path("/tmp/translate_ende"),
    "log_dir": Path("/tmp/transformer_model"),
    "distribute": "tnt",
    "mixed_precision": "none",
    "resume": False,
    "evaluate_on": "ranks",
}


def parse(*argv):
    return parse_flags(["--synthetic_data", *map(str, argv)])


def message_of(capsys, *argv):
    with pytest.raises(SystemExit) as ending:
        parse_flags([str(each) for each in argv])
    assert ending.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_defaults_are_those_of_the_original():
    flags = vars(parse())
    assert {name: flags[name] for name in DEFAULTS} == DEFAULTS


def test_short_names_are_those_of_the_original(tmp_path):
    file = tmp_path / "file"
    file.touch()
    values = {"-te": 7, "-ebe": 3, "-bs": 5000, "-mp": "tiny", "-ml": 33, "-npc": 2, "-pgtc": 4}
    texts = {"-vf": file, "-bls": file, "-blr": file, "-dd": tmp_path, "-md": tmp_path}
    arguments = [each for pair in {**values, **texts}.items() for each in pair]
    flags = parse(*arguments, "-gt_mode", "gpu_private")
    assert (flags.train_epochs, flags.epochs_between_evals, flags.batch_size) == (7, 3, 5000)
    assert (flags.param_set, flags.max_length, flags.num_parallel_calls) == ("tiny", 33, 2)
    assert (flags.per_gpu_thread_count, flags.tf_gpu_thread_mode) == (4, "gpu_private")
    assert flags.vocab_file == flags.bleu_source == flags.bleu_ref == file
    assert flags.data_dir == flags.model_dir == flags.log_dir == tmp_path


@pytest.mark.parametrize("name", ["--synthetic_data", "--use_synthetic_data", "-synth", "--synth"])
def test_synthetic_data_have_several_names(name):
    assert parse_flags([name]).synthetic_data


@pytest.mark.parametrize("text", ["--no-auto_data_dist", "--auto_data_dist=false"])
def test_switches_are_turned_off_in_two_ways(text):
    assert not parse(text).auto_data_dist


@pytest.mark.parametrize("name", ["tiny", "base", "big"])
def test_a_parameter_set_is_taken_as_it_is(name):
    params = params_of(parse(f"--param_set={name}"), None)
    assert params == PARAM_SETS[name]
    assert params.vocab_size == 33786


def test_flags_change_parameters():
    params = params_of(
        parse(
            "--batch_size=3000",
            "--max_length=50",
            "--vocab_size=99",
            "--learning_rate=0.5",
            "--learning_rate_warmup_steps=7",
            "--label_smoothing=0",
            "--num_hidden_layers=3",
            "--dropout=0",
        ),
        None,
    )
    assert params == PARAM_SETS["big"].without_dropout().replace(
        batch_size=3000,
        max_length=50,
        vocab_size=99,
        learning_rate=0.5,
        learning_rate_warmup_steps=7,
        label_smoothing=0.0,
        num_hidden_layers=3,
    )


def test_the_vocabulary_decides_on_its_size_unless_a_larger_one_is_given():
    assert params_of(parse(), 500).vocab_size == 500
    assert params_of(parse("--vocab_size=512"), 500).vocab_size == 512
    with pytest.raises(SystemExit, match=r"--vocab_size=499 is smaller than .* of 500 subwords"):
        params_of(parse("--vocab_size=499"), 500)


def test_threads_of_gpus_are_told_to_tensorflow():
    environment = {}
    set_gpu_threads(parse(), environment)
    assert environment == {}
    set_gpu_threads(parse("-gt_mode=gpu_private", "-pgtc=2"), environment)
    assert environment == {"TF_GPU_THREAD_MODE": "gpu_private", "TF_GPU_THREAD_COUNT": "2"}


@pytest.mark.parametrize("name", transformer_flags.WITHOUT_EFFECT)
def test_flags_without_effect_are_accepted_with_a_warning(name, caplog):
    transformer_flags.warn_of_flags_without_effect(parse(f"--{name}=x"))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"--{name} has no effect: " in record.getMessage()


def test_no_flag_gives_no_warning(caplog):
    transformer_flags.warn_of_flags_without_effect(parse())
    assert not caplog.records


def test_nonsense_is_refused_in_one_sentence(capsys, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for argv, sentence in (
        (["--synth", "--no_such_flag"], "unrecognized arguments: --no_such_flag"),
        (["--synth", "--train_epochs=0"], "must be a whole number of at least 1, not '0'"),
        (["--synth", "--dropout=1"], "must be at least 0 and below 1"),
        (["--synth", "--param_set=huge"], "invalid choice: 'huge'"),
        (["--synth", "--distribute=tf"], "invalid choice: 'tf'"),
        (["--synth", "--resume"], "--resume needs a folder"),
        (["--synth", f"--bleu_ref={file}"], "belong together: give both or none"),
        (["--synth", f"-bls={file}", f"-blr={file}"], "add --vocab_file=FILE"),
        (["--synth", "-vf=/no/file"], "there is no file /no/file for --vocab_file"),
        (["-dd=/no/folder"], "there is no folder /no/folder: give --data_dir=FOLDER, or --synth"),
        (["--synth", "--vocab_size=2"], "--vocab_size must be at least 3: padding, end and one"),
        (["--synth", "-mp=base", "-ml=3000"], "a batch of 2048 tokens has no room"),
    ):
        assert sentence in message_of(capsys, *argv)


def test_flags_are_refused_before_tensorflow_is_imported():
    code = "import sys, models.transformer.flags; sys.exit('tensorflow' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=100, check=True)
