#!/bin/sh
# Builds a wheel whose call path is compiled (docs/decisions/0005): packaging/compiled.sh PYTHON FOLDER.
# PYTHON has what requirements-build.lock lists, and a C compiler beside it. FOLDER becomes a copy of the tree
# with the compiled modules beside their sources, and the wheel in FOLDER/dist. A copy, because a compiled module would
# hide what is edited next.
set -eu
case $1 in
  /*) python=$1 ;;
  *) python=$PWD/$1 ;;
esac
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
find "$folder" -mindepth 1 -delete
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -t "$folder"
cd "$folder"
HATCH_BUILD_HOOK_ENABLE_MYPYC=1 "$python" -m hatchling build --target wheel
