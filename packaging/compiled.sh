#!/bin/sh
# Builds a wheel whose call path is compiled (docs/decisions/0005): packaging/compiled.sh PYTHON FOLDER.
# PYTHON has what requirements-build.lock lists, and a C compiler beside it. FOLDER becomes a copy of the tree with the
# compiled modules beside their sources, and the wheel in FOLDER/dist. A copy, because a compiled module would hide what
# is edited next. FOLDER is new, empty, or one that this made before: then it is emptied first.
set -eu
fail() {
  echo "packaging/compiled.sh: $1" >&2
  exit 2
}
[ $# = 2 ] || fail "say PYTHON and FOLDER"
python=$(command -v "$1") || fail "$1 is no Python"
case $python in
  /*) ;;
  *) python=$PWD/$python ;;
esac
"$python" -c 'import hatch_mypyc' || fail "$1 lacks what requirements-build.lock lists"
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
git rev-parse --is-inside-work-tree >/dev/null || fail "the files to copy are those that git knows"
mark=.made-by-compiled.sh
[ -z "$(ls -A "$folder")" ] || [ -e "$folder/$mark" ] || fail "$2 is not empty, and was not made by this: remove it first"
find "$folder" -mindepth 1 -delete
touch "$folder/$mark"
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -t "$folder"
cd "$folder"
HATCH_BUILD_HOOK_ENABLE_MYPYC=1 "$python" -m hatchling build --target wheel
