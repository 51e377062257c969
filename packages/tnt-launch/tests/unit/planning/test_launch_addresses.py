"""Hosts get the address at which others reach them."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.addresses import OwnAddress, own_address_towards
from tnt_launch.planning.host_facts import HostFacts, choose_addresses

LO = OwnAddress("lo", "127.0.0.1")


def host(*addresses, **seen):
    own = (LO, *(OwnAddress("eth0", address) for address in addresses))
    return HostFacts("alpha", 8, addresses=own, **seen)


ALPHA, BETA = host("10.0.0.1"), host("10.0.0.2", reached_at="10.0.0.2", reached_from="10.0.0.1")


def test_hosts_are_reached_where_the_launcher_has_reached_them():
    assert choose_addresses(["a", "b"], [ALPHA, BETA]) == ["10.0.0.1", "10.0.0.2"]


def test_two_names_of_one_host_need_no_loopback():
    assert choose_addresses(["a", "alias"], [ALPHA, ALPHA]) == ["10.0.0.1"] * 2
    assert choose_addresses(["a", "alias"], [host(), host()]) == ["127.0.0.1"] * 2


@pytest.mark.parametrize("interface", ["eth0", "10.0.0.0/24"])
def test_an_interface_may_be_given_in_several_ways(interface):
    assert choose_addresses(["a", "b"], [ALPHA, BETA], interface) == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize("interface", ["lo", "127.0.0.0/8"])
def test_loopback_is_no_way_between_hosts(interface):
    with pytest.raises(LaunchError, match=r"only the host itself reaches 127\.0\.0\.1"):
        choose_addresses(["a", "b"], [ALPHA, BETA], interface)
    assert choose_addresses(["a", "alias"], [ALPHA, ALPHA], interface) == ["127.0.0.1"] * 2


def test_a_host_without_a_network_is_named():
    with pytest.raises(LaunchError, match="host b has no address"):
        choose_addresses(["a", "b"], [ALPHA, host()])


def test_the_way_to_a_host_begins_at_an_address_of_this_one_if_its_name_is_known():
    assert own_address_towards("127.0.0.1") == "127.0.0.1"
    assert own_address_towards("nowhere.invalid") == ""
