"""Doors: where callers come in. `http` speaks HTTP/1.1 over TLS; `admin` shows operators what goes on."""
