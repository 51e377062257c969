"""The plan holds the right command and variables for every rank."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.cpus import Cpu
from tnt_launch.planning.gpu_drivers import Gpu
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.plan import make_job_id, make_plan
from tnt_launch.planning.plan_text import render_plan
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import ALL_NAMES

JOB = "0123456789abcdef"


def plan_of(
    *, environment=None, cores=8, gpus=0, cpus=(), program=("a.py", "x y"), seen=None, **options
):
    settings = {name: value for name, value in options.items() if name.startswith("TNT_")}
    given = {name: value for name, value in options.items() if name not in settings}
    spec = LaunchSpec(program=program, settings=settings, **given)
    environment = environment or {}
    found = tuple(Gpu(str(index)) for index in range(gpus))
    host = HostFacts("alpha", cores, found, cpus, True, "/work dir", **(seen or {}))
    return make_plan(spec, read_settings(spec, environment), [host], environment, JOB)


def variables_of(**settings):
    """Variables of rank 0."""
    return plan_of(**settings).ranks[0].environment


def test_every_rank_runs_the_interpreter_with_the_program_on_the_host():
    plan = plan_of(ranks_per_node=2, interpreter=("py", "-u"))
    assert [rank.argv for rank in plan.ranks] == [("py", "-u", "a.py", "x y")] * 2
    assert [(rank.rank, rank.host) for rank in plan.ranks] == [(0, "alpha"), (1, "alpha")]
    assert [host.working_directory for host in plan.hosts] == ["/work dir"]


def test_an_empty_interpreter_runs_the_program_itself():
    assert plan_of(interpreter=(), program=("./a", "b")).ranks[0].argv == ("./a", "b")


@pytest.mark.parametrize("size", [1, 3])
def test_every_rank_knows_its_place(size):
    for rank, plan in enumerate(plan_of(ranks_per_node=size).ranks):
        expected = {
            "TNT_RANK": str(rank),
            "TNT_SIZE": str(size),
            "TNT_LOCAL_RANK": str(rank),
            "TNT_LOCAL_SIZE": str(size),
            "TNT_NODE_RANK": "0",
            "TNT_NUM_NODES": "1",
            "TNT_RESTART_COUNT": "0",
            "TNT_JOB_ID": JOB,
            "TNT_GPUS_PER_NODE": "0",
        }
        assert {name: plan.environment[name] for name in expected} == expected


def test_sets_have_the_same_order_on_all_ranks_unless_the_user_says_how():
    seeds = {rank.environment["PYTHONHASHSEED"] for rank in plan_of(ranks_per_node=3).ranks}
    assert [0 <= int(seed) < 2**32 for seed in seeds] == [True]
    assert "PYTHONHASHSEED" not in variables_of(environment={"PYTHONHASHSEED": "random"})


def test_every_variable_is_one_that_is_declared():
    found = variables_of(
        ranks_per_node=2,
        TNT_LOG_LEVEL="INFO",
        TNT_LOG_ON_ALL_DEVICES=True,
        TNT_OUTPUT_ON_ALL_DEVICES=True,
        TNT_FUSION_THRESHOLD_KB=1,
        TNT_TIMEOUT_S=2.5,
        environment={"TNT_FUSION_THRESHOLD": "3"},
    )
    assert {name for name in found if name.startswith("TNT_")} <= set(ALL_NAMES)


def test_an_order_of_summation_is_told_and_passed_on():
    plan = plan_of(ranks_per_node=6, environment={"TNT_SUM_TREE": " 3x2"})
    assert [rank.environment["TNT_SUM_TREE"] for rank in plan.ranks] == ["3x2"] * 6
    assert plan.summary().endswith(", order of sums: 3x2")


def test_an_order_of_summation_of_other_ranks_is_refused():
    with pytest.raises(LaunchError, match="TNT_SUM_TREE=6x16 must be the number of ranks, 6"):
        plan_of(ranks_per_node=6, environment={"TNT_SUM_TREE": "6x16"})


@pytest.mark.parametrize(
    ("cores", "ranks", "threads"), [(8, 2, "4"), (8, 3, "2"), (2, 4, "1"), (7, 7, "1")]
)
def test_cores_are_shared_evenly_by_the_ranks(cores, ranks, threads):
    found = variables_of(cores=cores, ranks_per_node=ranks)
    assert (found["TNT_NUM_THREADS"], found["OMP_NUM_THREADS"]) == (threads, threads)


def test_one_rank_alone_keeps_the_default_of_tensorflow():
    found = variables_of(ranks_per_node=1)
    assert "TNT_NUM_THREADS" not in found
    assert "OMP_NUM_THREADS" not in found


def test_threads_set_by_the_user_are_kept():
    found = variables_of(ranks_per_node=2, environment={"TNT_NUM_THREADS": "3"})
    assert (found["TNT_NUM_THREADS"], found["OMP_NUM_THREADS"]) == ("3", "3")
    found = variables_of(ranks_per_node=2, environment={"OMP_NUM_THREADS": "5"})
    assert found["TNT_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in found  # inherited


def test_output_is_unbuffered_and_tensorflow_quiet_unless_the_user_decides():
    found = variables_of()
    assert (found["PYTHONUNBUFFERED"], found["TF_CPP_MIN_LOG_LEVEL"]) == ("1", "3")
    user = {"PYTHONUNBUFFERED": "", "TF_CPP_MIN_LOG_LEVEL": "0"}
    assert not user.keys() & variables_of(environment=user).keys()
    assert variables_of(exports=(("TF_CPP_MIN_LOG_LEVEL", "1"),))["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_options_not_given_write_nothing():
    found = variables_of()
    for name in ("LOG_LEVEL", "LOG_ON_ALL_DEVICES", "FUSION_THRESHOLD_KB", "TIMEOUT_S"):
        assert f"TNT_{name}" not in found


def test_values_of_the_environment_are_kept_if_the_option_is_not_given():
    user = {"TNT_LOG_LEVEL": "DEBUG", "TNT_OUTPUT_ON_ALL_DEVICES": "yes", "TNT_TIMEOUT_S": "9"}
    plan = plan_of(environment=user)
    canonical = {**user, "TNT_OUTPUT_ON_ALL_DEVICES": "1"}
    assert canonical.items() <= dict(plan.ranks[0].environment).items()
    assert plan.shows_all_output


def test_an_option_wins_over_the_environment():
    user = {"TNT_LOG_LEVEL": "DEBUG", "TNT_FUSION_THRESHOLD_KB": "1", "TNT_TIMEOUT_S": "9"}
    found = variables_of(
        environment=user, TNT_LOG_LEVEL="ERROR", TNT_FUSION_THRESHOLD_KB=64, TNT_TIMEOUT_S=2.5
    )
    assert found["TNT_LOG_LEVEL"] == "ERROR"
    assert found["TNT_FUSION_THRESHOLD_KB"] == "64"
    assert found["TNT_TIMEOUT_S"] == "2.5"


def test_the_fusion_option_wins_over_either_name_of_the_variable():
    found = variables_of(environment={"TNT_FUSION_THRESHOLD": "1"}, TNT_FUSION_THRESHOLD_KB=64)
    assert found["TNT_FUSION_THRESHOLD"] == found["TNT_FUSION_THRESHOLD_KB"] == "64"


def test_flags_are_written_as_booleans():
    plan = plan_of(TNT_LOG_ON_ALL_DEVICES=True, TNT_OUTPUT_ON_ALL_DEVICES=False)
    assert plan.ranks[0].environment["TNT_LOG_ON_ALL_DEVICES"] == "1"
    assert not plan.shows_all_output


def test_exports_come_last_and_the_last_one_wins():
    found = variables_of(exports=(("A", "1"), ("A", "$B '\"\n"), ("TNT_LOG_LEVEL", "INFO")))
    assert found["A"] == "$B '\"\n"
    assert found["TNT_LOG_LEVEL"] == "INFO"


def test_a_malformed_export_of_ours_is_refused():
    with pytest.raises(LaunchError, match="TNT_LOG_LEVEL"):
        plan_of(exports=(("TNT_LOG_LEVEL", "LOUD"),))


def test_variables_of_another_job_are_replaced():
    outer = {"TNT_RANK": "junk", "TNT_SIZE": "77", "TNT_JOB_ID": "x"}
    found = variables_of(environment=outer)
    assert (found["TNT_RANK"], found["TNT_SIZE"], found["TNT_JOB_ID"]) == ("0", "1", JOB)


def test_gpus_are_shared_out_as_the_table_says():
    plan = plan_of(gpus=4)
    assert (len(plan.ranks), plan.gpus_per_node, plan.warnings) == (4, 4, ())
    assert {rank.environment["TNT_GPUS_PER_NODE"] for rank in plan.ranks} == {"4"}
    assert "device GPU" in plan.summary()


def test_a_number_of_gpus_set_by_the_user_replaces_the_one_found():
    assert len(plan_of(gpus=2, environment={"TNT_GPUS_PER_NODE": "2"}).ranks) == 2
    none = plan_of(gpus=0, environment={"TNT_GPUS_PER_NODE": "0"})
    assert (len(none.ranks), none.gpus_per_node, none.warnings) == (1, 0, ())


def test_a_warning_of_the_table_is_part_of_the_plan():
    assert len(plan_of(gpus=1, ranks_per_node=2).warnings) == 1


def test_a_list_that_leaves_too_few_gpus_is_named_with_what_is_odd_about_it():
    seen = {"gpu_list": "CUDA_VISIBLE_DEVICES=0,9", "gpu_remark": "9 is no GPU. [unknown-gpu]"}
    fewer, odd = plan_of(gpus=1, ranks_per_node=2, seen=seen).warnings
    assert fewer == (
        "only 1 GPU found by CUDA_VISIBLE_DEVICES=0,9 for 2 ranks: all ranks run on CPUs. Give "
        "-n 1, or list a GPU for each rank. Give --no-gpu if this is what you want. [fewer-gpus]"
    )
    assert odd == "alpha: 9 is no GPU. [unknown-gpu]"
    hidden = plan_of(ranks_per_node=2, seen={"gpu_list": "CUDA_VISIBLE_DEVICES=-1"})
    assert hidden.notes == ("no GPU found by CUDA_VISIBLE_DEVICES=-1: 2 ranks run on CPUs",)


def test_ranks_that_share_a_gpu_are_a_warning_of_the_plan():
    twice = HostFacts("alpha", 8, (Gpu("0"), Gpu("0")), gpu_list="CUDA_VISIBLE_DEVICES=0,0")
    spec = LaunchSpec(program=("a.py",))
    plan = make_plan(spec, read_settings(spec, {}), [twice], {}, JOB)
    assert [rank.environment["CUDA_VISIBLE_DEVICES"] for rank in plan.ranks] == ["0", "0"]
    (warning,) = plan.warnings
    assert warning.startswith("alpha: CUDA_VISIBLE_DEVICES=0,0 names GPU 0 for 2 ranks")


def test_the_summary_states_ranks_host_device_and_threads():
    assert plan_of(ranks_per_node=2).summary() == (
        "2 ranks on alpha, device CPU, threads per rank: 4"
    )


def test_job_ids_are_random_and_fit_for_names_of_files():
    first, second = make_job_id(), make_job_id()
    assert first != second
    assert first.isalnum()
    assert 8 <= len(first) <= 32


def devices_of(**settings):
    """What every rank sees of CUDA's and ROCm's devices, and whether memory grows as needed."""
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH")
    ranks = plan_of(**settings).ranks
    return [tuple(rank.environment.get(name) for name in names) for rank in ranks]


def test_every_rank_sees_its_own_gpu():
    assert devices_of(gpus=2) == [("0", "0", "true"), ("1", "1", "true")]
    assert devices_of(gpus=2, ranks_per_node=1) == [("0", "0", "true")]


@pytest.mark.parametrize("user", [{}, {"CUDA_VISIBLE_DEVICES": "0"}])
def test_ranks_on_cpus_see_no_gpu(user):
    hidden = [("-1", "-1", None)] * 2
    assert devices_of(gpus=2, ranks_per_node=2, allow_gpus=False, environment=user) == hidden
    assert devices_of(gpus=1, ranks_per_node=2, environment=user) == hidden
    assert devices_of(gpus=0, ranks_per_node=2, exports=tuple(user.items())) == hidden


def test_memory_settings_of_the_user_are_kept():
    user = {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in variables_of(gpus=1, environment=user)  # inherited
    exports = tuple(user.items())
    assert variables_of(gpus=1, exports=exports)["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"


@pytest.mark.parametrize(
    ("cores", "ranks", "intra", "inter"), [(8, 2, "4", "4"), (4, 4, "1", "2"), (2, 4, "1", "2")]
)
def test_tensorflow_gets_the_share_of_cores_and_two_threads_for_operations(
    cores, ranks, intra, inter
):
    found = variables_of(cores=cores, ranks_per_node=ranks)
    assert found["TF_NUM_INTRAOP_THREADS"] == intra
    assert found["TF_NUM_INTEROP_THREADS"] == inter


def test_threads_of_tensorflow_that_the_user_set_are_kept():
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    user = dict.fromkeys(names, "7")
    assert not set(names) & set(variables_of(ranks_per_node=2, environment=user))
    found = variables_of(ranks_per_node=2, exports=tuple(user.items()))
    assert [found[name] for name in names] == ["7"] * 3
    assert not set(names) & set(variables_of(ranks_per_node=1))
    plan = plan_of(ranks_per_node=2, environment=user)
    assert plan.summary().endswith("threads per rank: 7")
    assert variables_of(ranks_per_node=2, environment=user)["TNT_NUM_THREADS"] == "7"
    default = {"TF_NUM_INTRAOP_THREADS": "0"}
    plan = plan_of(ranks_per_node=2, environment=default)
    assert plan.summary().endswith("threads per rank: TensorFlow's default")
    found = variables_of(ranks_per_node=1, environment={"TNT_NUM_THREADS": "1"})
    assert [found[name] for name in names] == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("level", "shown"), [(None, "3"), ("INFO", "3"), ("DEBUG", "0"), ("ERROR", "3")]
)
def test_tensorflow_is_heard_at_level_debug_only(level, shown):
    options = {} if level is None else {"TNT_LOG_LEVEL": level}
    assert variables_of(**options)["TF_CPP_MIN_LOG_LEVEL"] == shown


@pytest.mark.parametrize(
    ("own", "level"),
    [({}, 3), ({"TF_CPP_MIN_LOG_LEVEL": "1"}, 1), ({"TF_CPP_MIN_LOG_LEVEL": ""}, 0)],
)
def test_the_level_of_tensorflow_that_is_in_effect_is_part_of_the_plan(own, level):
    assert plan_of(environment=own).tensorflow_log_level == level
    assert plan_of(exports=tuple(own.items())).tensorflow_log_level == level
    assert plan_of(TNT_LOG_LEVEL="DEBUG").tensorflow_log_level == 0


def test_values_reach_ranks_in_canonical_form():
    user = {"TNT_TIMEOUT_S": " 5", "TNT_LOG_LEVEL": " info", "TNT_FUSION_THRESHOLD": "064"}
    expected = {"TNT_TIMEOUT_S": "5", "TNT_LOG_LEVEL": "INFO", "TNT_FUSION_THRESHOLD": "64"}
    assert expected.items() <= dict(variables_of(environment=user)).items()
    assert expected.items() <= dict(variables_of(exports=tuple(user.items()))).items()


def test_no_gpu_is_a_note_of_the_plan_and_an_unknown_variable_a_warning():
    plan = plan_of(ranks_per_node=2, environment={"TNT_TIMEOUT": "5"})
    assert plan.notes == ("no GPU found: 2 ranks run on CPUs",)
    (warning,) = plan.warnings
    assert warning.startswith("TNT_TIMEOUT is not a variable of Tarantella")


TWO_NODES = tuple(Cpu(number, number, number // 4, number // 4) for number in range(8))


def test_ranks_are_bound_and_get_the_threads_of_what_they_are_bound_to():
    plan = plan_of(ranks_per_node=4, bind_to="numa", cpus=TWO_NODES)
    assert [rank.cpus for rank in plan.ranks] == [(0, 1, 2, 3)] * 2 + [(4, 5, 6, 7)] * 2
    assert {rank.environment["TNT_NUM_THREADS"] for rank in plan.ranks} == {"2"}
    assert plan_of(ranks_per_node=2, bind_to="none", cpus=TWO_NODES).ranks[1].cpus == ()
    own = {"TNT_NUM_THREADS": "7"}
    found = variables_of(ranks_per_node=2, bind_to="core", cpus=TWO_NODES, environment=own)
    assert found["OMP_NUM_THREADS"] == "7"


def test_a_pinned_rank_is_started_by_numactl():
    plan = plan_of(
        ranks_per_node=1, pin_to_socket=True, cpus=TWO_NODES, interpreter=("py",), program=("a",)
    )
    numactl = ("numactl", "--cpunodebind=0", "--physcpubind=0-3", "--preferred=0")
    assert plan.ranks[0].argv == (*numactl, "py", "a")
    assert plan.ranks[0].cpus == ()
    assert "stay idle" in plan.warnings[0]


def test_a_line_tells_where_a_rank_is_kept():
    bound = plan_of(ranks_per_node=2, bind_to="numa", cpus=TWO_NODES, gpus=2)
    assert bound.ranks[1].binding() == ("rank 1 on alpha: cpus 4-7 (NUMA node 1), 4 threads, GPU 1")
    alone = plan_of(ranks_per_node=1, cpus=TWO_NODES[:1], bind_to="core").ranks[0].binding()
    assert alone == "rank 0 on alpha: cpus 0 (NUMA node 0), 1 thread, no GPU"
    near = HostFacts("alpha", 8, (Gpu("2", pci="0000:af:00.0", node=1),), TWO_NODES)
    spec = LaunchSpec(program=("a.py",))
    plan = make_plan(spec, read_settings(spec, {}), [near], {}, JOB)
    assert plan.ranks[0].binding() == (
        "rank 0 on alpha: cpus 4-7 (NUMA node 1), 4 threads, GPU 2 (0000:af:00.0, NUMA node 1)"
    )
    assert "# rank 0 on alpha: cpus 4-7 (NUMA node 1), GPU 2 (0000:af:00.0, NUMA node 1)\n" in (
        render_plan(plan)
    )
    free = plan_of(ranks_per_node=1).ranks[0].binding()
    assert free == "rank 0 on alpha: not bound, TensorFlow's number of threads, no GPU"
