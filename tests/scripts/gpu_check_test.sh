#!/usr/bin/env bash
# scripts/gpu_check.sh with a test program that is none: one case ends its process, one makes the GPU unusable for it,
# one fails, one is skipped. Every other case must still get its verdict, and the last line must name the bad ones.
#   gpu_check_test.sh PROJECT SCRATCH
set -euo pipefail
project=$1 scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"/{scripts,build/gpu/tests/cuda,build/gpu/cli}
cp "$project/scripts/gpu_check.sh" "$scratch/scripts/"
touch "$scratch/CMakeLists.txt"
program=$scratch/build/gpu/tests/cuda/test_cuda
cat > "$program" << 'PROGRAM'
#!/usr/bin/env bash
names=(CudaFeed.A CudaOperations.Good0 CudaOperations.Crashes CudaOperations.Good1 CudaOperations.Spoils
  CudaOperations.Good2 CudaOperations.Fails CudaOperations.Skips CudaOperations.Good3 CudaNccl.Skips)
if [[ ${1:-} == --gtest_list_tests ]]; then
  for name in "${names[@]}"; do printf '%s.\n  %s\n' "${name%.*}" "${name#*.}"; done
  exit 0
fi
[[ -n ${GTEST_FILTER:-} ]] || exit 0 # asked whether there is a GPU
echo "$GTEST_FILTER" >> "$(dirname "$0")/calls"
spoiled=false
IFS=: read -ra chosen <<< "$GTEST_FILTER"
for name in "${chosen[@]}"; do
  printf '[ RUN      ] %s\n' "$name"
  case $name in
    *.Crashes) kill -SEGV $$ ;;
    *.Spoils) spoiled=true ;;
    *.Fails) printf 'an error\n[  FAILED  ] %s, where GetParam() = 1 (3 ms)\n' "$name" && continue ;;
    *.Skips) printf 'nothing here\n[  SKIPPED ] %s (0 ms)\n' "$name" && continue ;;
  esac
  if $spoiled; then
    printf 'CUDA: an illegal memory access was encountered\n[  FAILED  ] %s (1 ms)\n' "$name"
  else
    printf '[       OK ] %s (1 ms)\n' "$name"
  fi
done
PROGRAM
printf '#!/bin/sh\necho fake\n' > "$scratch/build/gpu/cli/comera"
chmod +x "$program" "$scratch/build/gpu/cli/comera"

fail() {
  printf 'gpu_check_test: %s\n' "$*" >&2
  exit 1
}
status=0
said=$("$scratch/scripts/gpu_check.sh" --output "$scratch/out" --processes 1 test) || status=$?
echo "$said"
((status == 1)) || fail "exit status $status instead of 1"
grep -q '^gpu_check: test: CudaOperations: failed (3 cases) .*: 8 cases: 1 crashed (status 139), 2 failed, 4 passed, 1 skipped, 0 not reached' <<< "$said" ||
  fail "the verdict on CudaOperations is not there"
grep -q '^gpu_check: test: CudaNccl: skipped' <<< "$said" || fail "what was skipped is not called so"
tail -n 1 <<< "$said" | grep -q '^gpu_check: fails: .*CudaOperations.Crashes, CudaOperations.Spoils, CudaOperations.Fails' || fail "the last line names other failures"
grep -q '^CudaOperations.Good2' "$(dirname "$program")/calls" || fail "no new process behind the spoiled one"
# The same call again runs nothing that stands in the results.
before=$(wc -l < "$(dirname "$program")/calls")
status=0
said=$("$scratch/scripts/gpu_check.sh" --output "$scratch/out" --processes 1 test) || status=$?
((status == 1)) || fail "exit status $status instead of 1, again"
grep -q 'CudaOperations: failed (3 cases) before' <<< "$said" || fail "the verdict does not stand"
grep -q 'CudaNccl: skipped before' <<< "$said" || fail "what was skipped does not stand"
(($(wc -l < "$(dirname "$program")/calls") == before)) || fail "something ran again"
