"""What the launcher writes is what the ranks understand, value by value."""

from tnt_keras.process.environment import Settings, read_settings
from tnt_launch.environment import RankPlace, rank_environment, user_settings
from tnt_launch.spec import LaunchSpec

PLACE = RankPlace(rank=1, size=2, local_rank=1, local_size=2, node_rank=0, num_nodes=1)


def environment_of_a_rank(spec, inherited=None):
    inherited = inherited or {}
    settings = user_settings(spec, inherited)
    return {**inherited, **rank_environment(PLACE, "job0job0", 0, 8, settings, inherited)}


def test_defaults_of_the_launcher_are_defaults_of_the_library_on_cpus():
    written = environment_of_a_rank(LaunchSpec(program=("train.py",)))
    assert read_settings(written) == Settings(gpus_per_node=0)


def test_every_option_reaches_the_library():
    spec = LaunchSpec(
        program=("train.py",),
        log_level="DEBUG",
        log_on_all_devices=True,
        output_on_all_devices=True,
        fusion_threshold_kb=64,
        wire_dtype="bfloat16",
        exports=(("TNT_NUM_THREADS", "3"),),
    )
    assert read_settings(environment_of_a_rank(spec)) == Settings(
        log_level="DEBUG",
        log_on_all_ranks=True,
        output_on_all_ranks=True,
        gpus_per_node=0,
        fusion_threshold_bytes=64 * 1024,
        wire_dtype="bfloat16",
    )


def test_what_is_automatic_or_none_reaches_the_library_as_such():
    spec = LaunchSpec(program=("train.py",), fusion_threshold_kb="auto", wire_dtype="none")
    settings = read_settings(environment_of_a_rank(spec, {"TNT_FUSION_THRESHOLD": "8"}))
    assert settings.fusion_threshold_bytes is None
    assert settings.wire_dtype is None


def test_an_option_wins_over_both_names_of_an_inherited_threshold():
    spec = LaunchSpec(program=("train.py",), fusion_threshold_kb=64)
    for name in ("TNT_FUSION_THRESHOLD", "TNT_FUSION_THRESHOLD_KB"):
        written = environment_of_a_rank(spec, {name: "8"})
        assert read_settings(written).fusion_threshold_bytes == 64 * 1024
