#!/usr/bin/env bash
# Whether the tests of the CUDA kernels, as host code, notice mistakes: every barrier is left out, and every
# bound moved up and down by one, each by itself. Tried without a sanitizer first, which is quick; where that notices
# nothing, under AddressSanitizer, and then under ThreadSanitizer.
#   scripts/mutants.sh [--retry]    --retry: try again those that survived
# Those that docs/lab/mutants.md explains are tried without sanitizers only, except with --retry.
# Results are kept in build/asan/mutants.tsv, which a stopped call goes on from, until the kernels change.
# Survivors must be explained in docs/lab/mutants.md: exit 1 if one is not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

build=build/asan
quick=build/release/tests/qa/mutation/mutants
races=build/tsan/tests/qa/mutation/mutants
results=$build/mutants.tsv
reached=$build/mutants-reached.tsv
places=$build/mutated/places.tsv
program=$build/tests/qa/mutation/mutants
jobs=${MUTANT_JOBS:-$(nproc)}

retry=false renewed=false
case "${1:-}" in
  "") ;;
  --retry) retry=true ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' scripts/mutants.sh
    exit 2
    ;;
esac

for preset in release asan tsan; do
  cmake --preset "$preset" -DCOMERA_QA=ON > /dev/null
  cmake --build "build/$preset" --target mutants -j 2
done
export quick program races reached results places retry ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
  TSAN_OPTIONS=halt_on_error=1 OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000

# Results are those of these kernels; who survived is tried again when the tests change.
kernels=$(find "$build/mutated" -type f -print0 | sort -z | xargs -0 cat | cksum)
if [[ ! -e $reached || $reached -ot $program ]]; then
  echo "mutants: the tests without a mistake, and what they reach"
  "$races" --gtest_brief=1 > /dev/null
  "$program" --gtest_brief=1 > /dev/null
  COMERA_REACHED=$reached.part "$quick" --gtest_brief=1 > /dev/null
  mv "$reached.part" "$reached"
  renewed=true
fi
if [[ $kernels != "$(cat "$build/mutants-of" 2> /dev/null)" ]]; then rm -f "$results"; fi
echo "$kernels" > "$build/mutants-of"
touch "$results"
if $retry || $renewed; then
  grep -v $'\tsurvived\t' "$results" > "$results.part" || true
  mv "$results.part" "$results"
fi

# noticed PROGRAM TIMES FAILURE MUTANT TESTS: whether one of the tests (lines of milliseconds without sanitizers and
# name) fails, which the program says by status FAILURE, or the tests do not end in so many times what they take
# without the mistake. What happened is in $how.
noticed() {
  local status=0 limit
  limit=$(awk -v times="$2" '{ sum += $1 } END { print 20 + int(sum * times / 1000) }' <<< "$5")
  COMERA_MUTANT=$4 timeout "$limit" "$1" --gtest_brief=1 --gtest_fail_fast "--gtest_filter=$(cut -f 2 <<< "$5" | paste -sd :)" \
    > /dev/null 2>&1 || status=$?
  case $status in
    0) return 1 ;;
    124) how="does not end in $limit s" ;;
    "$3" | 1 | 134 | 135 | 136 | 139) how="status $status" ;; # a test failed, abort(), a wrong address or number
    *)
      printf 'mutants: %s ended with status %d\n' "$4" "$status" >&2
      exit 255 # and xargs with it
      ;;
  esac
}

# try MUTANT: appends MUTANT, verdict and what noticed it. The quickest tests are tried first. Sanitizers, which take
# minutes, are shown the ten quickest; ThreadSanitizer thirty for a barrier, which it is there for, and three for a bound.
try() {
  local mutant=$1 place=${1%[+-]} tests some few=30 how=""
  [[ $mutant == "$place" ]] || few=3
  tests=$(awk -F '\t' -v place=" $place " 'index($3, place) { print $2 "\t" $1 }' "$reached" | sort -n)
  if [[ -z $tests ]]; then
    printf '%s\tsurvived\tno test reaches it\n' "$mutant" >> "$results"
    return 0
  fi
  for some in 1,6p 7,30p 31,9999p; do
    some=$(sed -n "$some" <<< "$tests")
    if [[ -n $some ]] && noticed "$quick" 10 1 "$mutant" "$some"; then
      printf '%s\tcaught\t%s\n' "$mutant" "$how" >> "$results"
      return 0
    fi
  done
  if ! $retry && explained "$mutant"; then
    printf '%s\tsurvived\t%d tests reach it; not tried with sanitizers\n' "$mutant" "$(wc -l <<< "$tests")" >> "$results"
  elif noticed "$program" 100 1 "$mutant" "$(sed -n 1,10p <<< "$tests")"; then
    printf '%s\tcaught\tAddressSanitizer: %s\n' "$mutant" "$how" >> "$results"
  elif noticed "$races" 500 66 "$mutant" "$(sed -n "1,${few}p" <<< "$tests")"; then
    printf '%s\tcaught\tThreadSanitizer: %s\n' "$mutant" "$how" >> "$results"
  else
    printf '%s\tsurvived\t%d tests reach it\n' "$mutant" "$(wc -l <<< "$tests")" >> "$results"
  fi
}

# explained MUTANT: whether docs/lab/mutants.md has a line "- file, `source line`, +: reason" for it. The line of the
# source is in $line, what was done to it in $kind.
explained() {
  line=$(awk -F '\t' -v place="${1%[+-]}" '$1 == place { split($3, at, ":"); print at[1] "\t" $4 }' "$places")
  kind=${1##*[0-9]}
  grep -qF -e "- ${line%%$'\t'*}, \`${line#*$'\t'}\`, ${kind:-out}:" docs/lab/mutants.md
}
export -f noticed try explained

# Backwards: the first files' tests, attention's, take longest.
awk -F '\t' '$2 == "barrier" { print $1 } $2 == "bound" { print $1 "+"; print $1 "-" }' "$places" |
  tac | grep -vxFf <(cut -f 1 "$results"; echo none) > "$build/mutants-left" || true
echo "mutants: $(wc -l < "$build/mutants-left") to try"
# shellcheck disable=SC2016
xargs -r -P "$jobs" -I '{}' bash -c 'try "$1"' try '{}' < "$build/mutants-left"

unexplained=0
while IFS=$'\t' read -r mutant _ why; do
  known=', explained'
  explained "$mutant" || known=', NOT EXPLAINED' unexplained=$((unexplained + 1))
  printf 'survived: %-4s %s: %s (%s)%s\n' "${kind:-out}" "${line%%$'\t'*}" "${line#*$'\t'}" "$why" "$known"
done < <(grep $'\tsurvived\t' "$results" | sort -n)
caught=$(grep -c $'\tcaught\t' "$results" || true)
all=$(wc -l < "$results")
printf 'mutants: %d of %d caught (%d.%d %%), %d survivors not explained\n' "$caught" "$all" $((100 * caught / all)) \
  $((1000 * caught / all % 10)) "$unexplained"
((unexplained == 0))
