"""Command lines of the pages and of the original Tarantella's tutorial."""

import re
import shlex

import pytest
from run_command import ROOT, run_command

from models.transformer.flags import WITHOUT_EFFECT, params_of, parse_flags
from models.transformer.small_translations import write_folder

PAGES = [
    ROOT / "models/transformer/README.md",
    ROOT / "models/transformer/DATA.md",
    ROOT / "docs/howto/train_a_transformer.md",
    ROOT / "docs/howto/prepare_wmt14.md",
]
TEXT = "".join(page.read_text(encoding="utf-8") for page in PAGES)
COMMANDS = sorted(
    set(re.findall(r"^ *((?:python|tarantella) .*transformer_tnt\.py .*)$", TEXT, re.M))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the original's command line names, in small."""
    small = write_folder(tmp_path_factory.mktemp("wmt14"), num_train=33, num_dev=4)
    for name, original in (("dev.en", "newstest2014.en"), ("dev.de", "newstest2014.de")):
        (small.data / name).rename(small.data / original)
    small.vocabulary.rename(small.data / "vocab.ende.32768")
    return small.data


def with_paths_of(folder, command):
    """Flags of a command, with paths that are there."""
    flags = shlex.split(
        command.partition("transformer_tnt.py")[2].replace("${WMT14_PATH}", "wmt14")
    )
    joined = re.sub(r"(--\w+) (?=[^-])", r"\1=", shlex.join(flags))
    paths = {
        "--data_dir": folder,
        "--vocab_file": folder / "vocab.ende.32768",
        "--bleu_source": folder / "newstest2014.en",
        "--bleu_ref": folder / "newstest2014.de",
    }
    words = [word.partition("=") for word in shlex.split(joined)]
    return [f"{name}={paths.get(name, value)}" if value else name for name, _, value in words]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_flags_of_a_documented_command_are_right(command, folder):
    flags = parse_flags(with_paths_of(folder, command))
    assert params_of(flags, None).batch_size >= flags.max_length


def test_every_flag_is_documented(capsys):
    with pytest.raises(SystemExit):
        parse_flags(["--help"])
    short_forms = {"--mp", "--te", "--bs", "--dd", "--vf", "--ml", "--synth", "--npc", "--ebe"}
    short_forms |= {"--bls", "--blr", "--gt_mode", "--pgtc", "--help"}
    known = set(re.findall(r"(?<!\w)--(?!no-)\w+", capsys.readouterr().out)) - short_forms
    table = "".join(line for line in PAGES[0].read_text().splitlines() if line.startswith("| `--"))
    assert known - set(re.findall(r"--\w+", table)) == set()
    assert len(known) > 40
    assert not known & {f"--{name}" for name in WITHOUT_EFFECT}


@pytest.mark.thorough  # the launcher runs the trainer in tests/docs, too
def test_the_line_of_the_tutorial_runs_as_written_but_for_sizes(folder):
    small = "--num_hidden_layers=1 --max_length=24 --batch_size=288 --learning_rate=0.2"
    finished = run_command(
        f"export TNT_MODELS_PATH={ROOT} WMT14_PATH={folder}; cd /; tarantella -n 2 --no-gpu -- "
        "${TNT_MODELS_PATH}/models/transformer/transformer_tnt.py --data_dir=${WMT14_PATH} "
        "--vocab_file=${WMT14_PATH}/vocab.ende.32768 --bleu_ref=${WMT14_PATH}/newstest2014.de "
        "--bleu_source=${WMT14_PATH}/newstest2014.en --param_set=tiny --train_epochs=3 "
        f"--epochs_between_evals=3 --enable_time_history {small}"
    )
    assert finished.status == 0, finished.messages
    assert finished.output.count("Epoch") == 3
    assert finished.output.count("tokens/s, communication") == 3
    assert re.search(r"bleu_cased: \d", finished.output)
