"""What the launcher writes is what the ranks understand, value by value."""

from tnt_keras.process.rank import Settings, read_settings
from tnt_launch.planning import settings as launcher
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.plan import make_plan
from tnt_launch.planning.spec import LaunchSpec


def environment_of_a_rank(inherited=None, **options):
    """Variables of rank 1 of two ranks on a host of 8 cores without a GPU."""
    inherited = inherited or {}
    spec = LaunchSpec(program=("train.py",), ranks_per_node=2, settings=options)
    settings = launcher.read_settings(spec, inherited)
    plan = make_plan(spec, settings, [HostFacts("alpha", 8)], inherited, "job0job0")
    return {**inherited, **plan.ranks[1].environment}


def test_defaults_of_the_launcher_are_defaults_of_the_library_on_cpus():
    assert read_settings(environment_of_a_rank()) == Settings(gpus_per_node=0, num_threads=4)


def test_every_option_reaches_the_library():
    written = environment_of_a_rank(
        TNT_LOG_LEVEL="DEBUG",
        TNT_LOG_ON_ALL_DEVICES=True,
        TNT_OUTPUT_ON_ALL_DEVICES=True,
        TNT_FUSION_THRESHOLD_KB=64,
        TNT_WIRE_DTYPE="bfloat16",
    )
    assert read_settings(written) == Settings(
        log_level="DEBUG",
        log_on_all_ranks=True,
        output_on_all_ranks=True,
        gpus_per_node=0,
        num_threads=4,
        fusion_threshold_bytes=64 * 1024,
        wire_dtype="bfloat16",
    )


def test_what_is_automatic_or_none_reaches_the_library_as_such():
    written = environment_of_a_rank(
        {"TNT_FUSION_THRESHOLD": "8"}, TNT_FUSION_THRESHOLD_KB="auto", TNT_WIRE_DTYPE="none"
    )
    settings = read_settings(written)
    assert settings.fusion_threshold_bytes is None
    assert settings.wire_dtype is None


def test_an_option_wins_over_both_names_of_an_inherited_threshold():
    for name in ("TNT_FUSION_THRESHOLD", "TNT_FUSION_THRESHOLD_KB"):
        written = environment_of_a_rank({name: "8"}, TNT_FUSION_THRESHOLD_KB=64)
        assert read_settings(written).fusion_threshold_bytes == 64 * 1024
