"""Ranks on several hosts: one agent on each, which the launcher talks to through a channel.

The launcher reaches an agent by the user's own ssh, or, without ssh, by a socket that the hosts'
launchers open among themselves. Either way the two ends exchange frames:

    launcher                                  agent on the host
    Cluster -> Children -> Channel  <------>  Channel <- HostAgent -> LocalAgent -> ranks
                                                      <- Children: agents further down the tree

An agent ends its ranks when its channel ends, and both ends notice a channel that is silent.
"""
