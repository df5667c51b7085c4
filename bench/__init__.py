"""The benchmark: the gateway and its peers, in turn on the same work. `python -m bench`; see `bench/README.md`."""
