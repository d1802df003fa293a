#!/usr/bin/env bash
# Whether the tests of the CUDA kernels, as host code under AddressSanitizer, notice mistakes: every barrier is
# left out, and every bound moved up and down by one, each by itself.
#   scripts/mutants.sh [--retry]    --retry: try again those that survived
# Results are kept in build/asan/mutants.tsv, which a stopped call goes on from, until the kernels change.
# Survivors must be explained in docs/mutants.md: exit 1 if one is not, or fewer than 95 of 100 are caught.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

build=build/asan
results=$build/mutants.tsv
reached=$build/mutants-reached.tsv
places=$build/mutated/places.tsv
program=$build/tests/mutation/mutants
case_seconds=60 # then a mutant hangs
jobs=${MUTANT_JOBS:-$(nproc)}

retry=false
case "${1:-}" in
  "") ;;
  --retry) retry=true ;;
  *)
    sed -n '2,6s/^# \{0,1\}//p' scripts/mutants.sh
    exit 2
    ;;
esac

cmake --preset asan > /dev/null
cmake --build --preset mutants -j 2
export program reached results case_seconds ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 GOMP_SPINCOUNT=1000

if [[ ! -e $reached || $reached -ot $program ]]; then
  rm -f "$results"
  echo "mutants: the tests without a mistake, and what they reach"
  COMERA_REACHED=$reached.part "$program" --gtest_brief=1 > /dev/null
  mv "$reached.part" "$reached"
fi
touch "$results"
if $retry; then
  grep -v $'\tsurvived\t' "$results" > "$results.part" || true
  mv "$results.part" "$results"
fi

# try MUTANT: appends MUTANT, verdict and what noticed it. The quickest tests are tried first.
try() {
  local mutant=$1 place=${1%[+-]} tests filter status some
  tests=$(awk -F '\t' -v place=" $place " 'index($3, place) { print $2 "\t" $1 }' "$reached" | sort -n | cut -f 2)
  if [[ -z $tests ]]; then
    printf '%s\tsurvived\tno test reaches it\n' "$mutant" >> "$results"
    return 0
  fi
  for some in 1,6p 7,30p 31,9999p; do
    filter=$(sed -n "$some" <<< "$tests" | paste -sd :)
    [[ -n $filter ]] || break
    status=0
    COMERA_MUTANT=$mutant timeout "$case_seconds" "$program" --gtest_brief=1 --gtest_fail_fast "--gtest_filter=$filter" \
      > /dev/null 2>&1 || status=$?
    case $status in
      0) ;;
      124) status="does not end" ;;
      *) status="status $status" ;;
    esac
    if [[ $status != 0 ]]; then
      printf '%s\tcaught\t%s\n' "$mutant" "$status" >> "$results"
      return 0
    fi
  done
  printf '%s\tsurvived\t%d tests reach it\n' "$mutant" "$(wc -l <<< "$tests")" >> "$results"
}
export -f try

awk -F '\t' '$2 == "barrier" { print $1 } $2 == "bound" { print $1 "+"; print $1 "-" }' "$places" |
  grep -vxFf <(cut -f 1 "$results"; echo none) > "$build/mutants-left" || true
echo "mutants: $(wc -l < "$build/mutants-left") to try"
# shellcheck disable=SC2016
xargs -r -P "$jobs" -I '{}' bash -c 'try "$1"' try '{}' < "$build/mutants-left"

# A survivor is explained by a line of the document that begins with its place's source line.
unexplained=0
while IFS=$'\t' read -r mutant _ why; do
  line=$(awk -F '\t' -v place="${mutant%[+-]}" '$1 == place { split($3, at, ":"); print at[1] "\t" $4 }' "$places")
  kind=${mutant##*[0-9]}
  printf 'survived: %-4s %s: %s (%s)' "${kind:-out}" "${line%%$'\t'*}" "${line#*$'\t'}" "$why"
  if grep -qF "| ${line%%$'\t'*} | \`${line#*$'\t'}\` | ${kind:-out} |" docs/mutants.md 2> /dev/null; then
    printf ', explained\n'
  else
    printf ', NOT EXPLAINED\n'
    unexplained=$((unexplained + 1))
  fi
done < <(grep $'\tsurvived\t' "$results" | sort -n)
caught=$(grep -c $'\tcaught\t' "$results" || true)
all=$(wc -l < "$results")
printf 'mutants: %d of %d caught (%d.%d %%), %d survivors not explained\n' "$caught" "$all" $((100 * caught / all)) \
  $((1000 * caught / all % 10)) "$unexplained"
((unexplained == 0 && 100 * caught >= 95 * all))
