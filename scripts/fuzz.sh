#!/usr/bin/env bash
# Builds the fuzzers of tests/qa/fuzz (clang, libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer) and runs each
# in turn from its checked-in corpus. Fails at the first crash, broken promise, hang or lack of memory.
#   scripts/fuzz.sh                 a minute for each target
#   scripts/fuzz.sh SECONDS [TARGET ...]
# What is found stays in build/fuzz/found/TARGET-*: run build/fuzz/tests/qa/fuzz/fuzz_TARGET FILE to see it again,
# mend it, and add the file to tests/qa/fuzz/corpus/TARGET. New inputs are collected in build/fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,7s/^# \{0,1\}//p' scripts/fuzz.sh
  exit 0
fi
seconds=${1:-60}
shift || true
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
  printf 'fuzz: error: %s\n' "'$seconds' is no number of seconds; see --help" >&2
  exit 2
fi
for program in clang++ cmake; do
  command -v "$program" > /dev/null || {
    printf 'fuzz: error: %s is missing; install it with scripts/setup.sh --dev\n' "$program" >&2
    exit 1
  }
done

cmake --preset fuzz > /dev/null
cmake --build --preset fuzz

targets=("$@")
if ((${#targets[@]} == 0)); then
  for folder in tests/qa/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi
found=build/fuzz/found
mkdir -p "$found"
printf '%-20s %10s %12s %9s\n' target seconds executions features
for target in "${targets[@]}"; do
  program=build/fuzz/tests/qa/fuzz/fuzz_$target
  [[ -x $program ]] || {
    printf 'fuzz: error: there is no target %s\n' "$target" >&2
    exit 2
  }
  collected=build/fuzz/corpus/$target
  log=$found/$target.log
  mkdir -p "$collected"
  "$program" --seeds "$collected"
  options=(-max_total_time="$seconds" -max_len=8192 -rss_limit_mb=2048 -timeout=25 -print_final_stats=1
    -artifact_prefix="$found/$target-")
  [[ ! -s tests/qa/fuzz/$target.dict ]] || options+=(-dict="tests/qa/fuzz/$target.dict")
  if ! "$program" "${options[@]}" "$collected" "tests/qa/fuzz/corpus/$target" > "$log" 2>&1; then
    grep -E 'broken promise|ERROR|SUMMARY|runtime error|Test unit written' "$log" >&2 || tail -n 20 "$log" >&2
    printf 'fuzz: error: %s failed; see %s and the input beside it\n' "$target" "$log" >&2
    exit 1
  fi
  printf '%-20s %10d %12d %9d\n' "$target" "$seconds" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(sed -n 's/.* ft: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)"
done
