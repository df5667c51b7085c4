"""The soak: mixed and hostile traffic for minutes, after which the gateway must be where it was. See soak/README.md."""
