"""Command lines of the pages, of the recipe, and of the original Tarantella's tutorials."""

import re
import shlex

import pytest
from run_command import ROOT, run_command

from models.image_classification.flags import parse_arguments
from models.image_classification.learning_rate import make_schedule, scaled_rate

PAGES = [
    ROOT / "models/image_classification/README.md",
    ROOT / "docs/howto/train_on_imagenet.md",
]
TEXT = "".join(page.read_text(encoding="utf-8") for page in PAGES)
COMMANDS = sorted(set(re.findall(r"^ *(tarantella .*train_imagenet_main\.py .*)$", TEXT, re.M)))
SMALL = (
    "--model_arch=resnet8 --image_size=16 --batch_size=4 --train_num_samples=8 --val_num_samples=4"
)


def flags_of(command, data_dir):
    words = shlex.split(command.partition("train_imagenet_main.py")[2])
    return [f"--data_dir={data_dir}" if word.startswith("--data_dir") else word for word in words]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_flags_of_a_documented_command_are_right(command, tmp_path):
    parse_arguments(flags_of(command, tmp_path))


def test_every_flag_is_documented(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--help"])
    known = set(re.findall(r"--(?!no-)\w+", capsys.readouterr().out)) - {"--help"}
    table = "".join(line for line in PAGES[0].read_text().splitlines() if line.startswith("| `--"))
    assert known - set(re.findall(r"--\w+", table)) == set()
    assert len(known) > 35


@pytest.mark.parametrize("batch_size", [256, 8192])
def test_the_recipe_has_the_published_values(batch_size, tmp_path):
    [recipe] = [command for command in COMMANDS if "--zero_gamma" in command]
    values = parse_arguments([*flags_of(recipe, tmp_path), f"--batch_size={batch_size}"])
    rate = scaled_rate(
        values.base_learning_rate, values.learning_rate_scaling, batch_size, num_ranks=8
    )
    assert rate == pytest.approx(0.1 * batch_size / 256)
    schedule = make_schedule(values.lr_schedule, rate, 100, values.warmup_epochs)
    assert float(schedule(250)) == pytest.approx(rate / 2)
    for epoch, factor in ((5, 1), (29, 1), (30, 0.1), (60, 0.01), (80, 0.001)):
        assert float(schedule(100 * epoch)) == pytest.approx(rate * factor, rel=1e-5)
    assert (values.train_epochs, values.weight_decay, values.label_smoothing) == (90, 1e-4, 0)
    assert values.zero_gamma
    assert not values.synchronized_batch_norm
    assert not values.nesterov


@pytest.mark.thorough  # the launcher runs the trainer in tests/docs, too
def test_the_line_of_the_first_tutorial_runs_in_its_folder():
    finished = run_command(
        "cd examples/image_classification && tarantella -n 2 "
        '-x XLA_FLAGS="--xla_gpu_cuda_data_dir=/usr/local/cuda" -- ./train_imagenet_main.py '
        f"{SMALL} --train_epochs=3 --val_freq=3 --synthetic_data --enable_time_history"
    )
    assert finished.status == 0, finished.messages
    assert finished.output.count("Epoch") == 3
    shares = re.findall(r"samples/s, communication (.*) % of steps", finished.output)
    assert len(shares) == 3
    assert min(map(float, shares)) > 0
    assert finished.output.count("val_loss") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ["resnet50", "efficientnetV2B0"])
def test_the_line_of_the_second_tutorial_runs_with_pictures(architecture, tmp_path):
    from models.image_classification.small_datasets import cut_out, write_tfds_records

    for split in ("train", "validation"):
        write_tfds_records(tmp_path, split, cut_out(12))
    finished = run_command(
        f"export TNT_MODELS_PATH={ROOT} TNT_DATASETS_PATH={tmp_path}; cd /; tarantella -n 2 -- "
        "${TNT_MODELS_PATH}/models/image_classification/train_imagenet_main.py "
        f"--data_dir=${{TNT_DATASETS_PATH}} {SMALL} --model_arch={architecture} --image_size=32 "
        "--strategy=data --train_epochs=2 --epochs_between_evals=2"
    )
    assert finished.status == 0, finished.messages
    assert finished.output.count("val_loss") == 1
