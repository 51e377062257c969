"""The file that `tarantella measure` writes."""

import math
import os
import sys

import pytest

from tarantella.measure.machine_file import Measured, network_of, text_of, write_whole

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HOST = {"copy_bytes_per_s": 1e10, "memory_bytes_per_s": 5e10}
NETWORK = {"latency_s": 2.5e-5, "bytes_per_s": 1.25e9}


def measured(**changes):
    given = {"hosts": 2, "ranks_per_host": 4, "date": "2026-11-30", "has_gpus": False}
    given |= {"network": NETWORK, "host": HOST, "jitter": 0.03}
    return Measured(**{**given, **changes})


def test_each_number_has_its_source():
    tables = tomllib.loads(text_of(measured()))
    assert tables["title"] == "2 hosts with 4 ranks, 2026-11-30"
    source = "measured 2026-11-30 by tarantella measure, 2 hosts with 4 ranks"
    assert tables["network"]["bytes_per_s"] == {"value": 1.25e9, "source": source}
    assert tables["host"]["copy_bytes_per_s"] == {"value": 1e10, "source": source}
    assert tables["training"]["jitter"]["value"] == 0.03
    assert tables["training"]["epoch_s"]["source"].startswith("not measured")


def test_what_was_not_measured_is_an_assumption():
    tables = tomllib.loads(text_of(measured(hosts=1, network=None, has_gpus=True)))
    assert tables["network"]["latency_s"]["source"].startswith("assumption")
    assert tables["device"]["up_bytes_per_s"]["source"].endswith("not measured here")
    without = tomllib.loads(text_of(measured()))
    assert without["device"]["up_bytes_per_s"]["value"] == math.inf


@pytest.mark.parametrize(("half_round_trip_s", "latency_s"), [(30e-6, 26e-6), (3e-6, 0.0)])
def test_the_latency_is_without_the_time_at_both_ends(half_round_trip_s, latency_s):
    network = network_of(half_round_trip_s, 1e9, 2e-6, 1e-10)
    assert network["latency_s"] == pytest.approx(latency_s)
    assert network["send_s"] == network["receive_s"] == 2e-6


def test_the_target_of_a_link_is_written_and_a_device_stays_one(tmp_path):
    link, file = tmp_path / "link", tmp_path / "machine.toml"
    link.symlink_to(file)
    write_whole(str(link), "text")
    assert link.is_symlink()
    assert file.read_text() == "text"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(str(pipe), "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text("before")
    write_whole(str(file), "after")
    assert file.read_text() == "after"
    with pytest.raises(UnicodeEncodeError):
        write_whole(str(file), "half \udc80")
    assert file.read_text() == "after"
    assert list(tmp_path.iterdir()) == [file]
