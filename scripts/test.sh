#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests. The last line says how many passed.
#   scripts/test.sh                     the release preset
#   scripts/test.sh PRESET [ctest options]
#   scripts/test.sh fast                those of a minute, before a commit
#   scripts/test.sh --built PRESET …    without installing and building
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,6s/^# \{0,1\}//p' scripts/test.sh
  exit 0
fi
built=false
if [[ ${1:-} == --built ]]; then
  built=true
  shift
fi
preset=${1:-release}
shift || true

if ! $built; then
  scripts/setup.sh
  built_as=${preset/#fast/release}
  cmake --preset "$built_as" > /dev/null
  cmake --build --preset "$built_as" -j 2
fi

report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
ctest --preset "$preset" -j 2 --no-tests=error --output-junit "$report" "$@" || status=$?

# <testsuite ... tests="9" failures="1" disabled="0" skipped="2" ...>
attribute() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
tests=$(attribute tests)
failed=$(attribute failures)
skipped=$(($(attribute skipped) + $(attribute disabled)))
if ((status != 0 && failed == 0)); then # such as a test program that was not built
  failed=1
  skipped=$((skipped > 0 ? skipped - 1 : 0))
fi
line="$((tests - failed - skipped)) passed, $failed failed"
((skipped == 0)) || line+=", $skipped skipped"
printf '\n%s\n' "$line"
exit "$status"
