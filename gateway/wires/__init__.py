"""Wires: how a request travels to a backend. One file for each protocol; the table is `WIRES`."""

from gateway.call import Channel
from gateway.wires.http import HttpWire

WIRES = {Channel.HTTP: HttpWire}
