#!/usr/bin/env bash
# Builds, tests and measures the CUDA backend on a machine with a GPU on which nothing can be installed.
#   scripts/gpu_check.sh [--output DIR] [--seconds N] STAGE ...
# Stages:
#   carry     where Debian 12's packages can be had: packs those that the build needs into .carry/
#   build     builds with what was packed, or with the system's packages if nothing was, into build/gpu
#   test      the CUDA tests on the GPU, and the tests of the CPU backend; without a GPU the emulated CUDA tests
#   sanitize  compute-sanitizer's memcheck and racecheck over the tests of the CUDA operations
#   bench     training steps of the six-encoder: comera's and, where torch is found, PyTorch's
#   all       all of them, in this order
# Each stage ends after N seconds (480). Every case is appended to DIR/gpu-check-SOURCES.md (bench/results) when it
# ends, and is not run again while it stands there and the sources are the same: the same call goes on where it
# stopped. The exit status is 1 if something failed and 3 if cases are left for another call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C PATH="$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin"

build=build/gpu
carried=.carry/dependencies.tar.xz
output=bench/results
stage_seconds=480
case_seconds=450 # a case that is begun first ends within a stage
# Precisions of our own backend, as a recipe sets them.
declare -A precisions=([fp32]='precision.compute="fp32"' [tf32]='precision.compute="tf32"' [bf16]='precision.compute="bf16"' [fp8]='precision.compute="fp8"')

say() { printf 'gpu_check: %s\n' "$*"; }
fail() {
  printf 'gpu_check: error: %s\n' "$*" >&2
  exit 1
}

stages=()
while (($# > 0)); do
  case "$1" in
    --output | --seconds)
      (($# > 1)) || fail "$1 needs a value"
      if [[ $1 == --output ]]; then output=$2; else stage_seconds=$2; fi
      shift
      ;;
    carry | build | test | sanitize | bench) stages+=("$1") ;;
    all) stages+=(carry build test sanitize bench) ;;
    -h | --help)
      sed -n '2,14s/^# \{0,1\}//p' scripts/gpu_check.sh
      exit 0
      ;;
    *) fail "'$1' is not a stage; see --help" ;;
  esac
  shift
done
((${#stages[@]} > 0)) || fail "name a stage; see --help"
[[ $stage_seconds =~ ^[1-9][0-9]*$ ]] || fail "'$stage_seconds' is no number of seconds"
((case_seconds < stage_seconds)) || case_seconds=$stage_seconds

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# limited SECONDS COMMAND...: what it prints goes to $work/log. Ctrl-C and SIGTERM end it too.
child=""
limited() {
  timeout --kill-after=5 "$@" > "$work/log" 2>&1 < /dev/null &
  child=$!
  wait "$child"
}
trap '[[ -z $child ]] || kill "$child" 2> /dev/null; exit 130' INT TERM

# ---- Results

# A copy of the sources without their history has the commit from when its dependencies were packed.
commit=$(git describe --always --dirty --abbrev=12 2> /dev/null || cat .carry/commit 2> /dev/null || echo unknown)
sources=$(find CMakeLists.txt cmake kernels tensorized model optim data checkpoints recipes cli tests bench/*.* bench/pytorch \
  -type f -not -name '*.pyc' -print0 | sort -z | xargs -0 sha1sum | sha1sum | cut -c 1-10)
mkdir -p "$output"
results=$output/gpu-check-$sources.md
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1 | sed 's/, /, driver /') || gpu=""
machine="${gpu:-no GPU}; $(nproc) × $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"

# entry NAME VERDICT SECONDS LINES LOG COMMAND...
entry() {
  local name=$1 verdict=$2 seconds=$3 lines=$4 log=$5
  shift 5
  [[ -e $results ]] || printf '# CUDA backend, commit %s, sources %s\n' "$commit" "$sources" > "$results"
  {
    printf '\n## %s\n%s after %d s; %s; %s; commit %s\n\n    ' "$name" "$verdict" "$seconds" \
      "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$machine" "$commit"
    printf '%s ' "$@"
    printf '\n\n```\n'
    tail -n "$lines" "$log"
    printf '```\n'
  } >> "$results"
}

# Of the stage that runs.
stage=""
outcome=0 # 1 if a case failed, 3 if some are left for another call
deadline=0
passed=0
failed=()
unreached=()

begin() {
  stage=$1
  outcome=0
  deadline=$((SECONDS + stage_seconds))
  passed=0
  failed=()
  unreached=()
  printf '\n== %s\n' "$stage"
}

# run_case NAME LINES COMMAND...: runs it unless it stands in the results, within what is left of the stage's time.
run_case() {
  local name=$1 lines=$2 status=0 start=$SECONDS allowed verdict
  shift 2
  verdict=$(grep -xFA 1 "## $stage: $name" "$results" 2> /dev/null | sed -n '2s/ .*//p') || verdict=""
  if [[ -n $verdict ]]; then
    say "$stage: $name: $verdict before, see $results"
    if [[ $verdict == passed ]]; then passed=$((passed + 1)); else failed+=("$name"); fi
    return 0
  fi
  allowed=$((deadline - SECONDS))
  if ((allowed < 1)); then
    unreached+=("$name")
    return 0
  fi
  ((allowed < case_seconds)) || allowed=$case_seconds
  limited "$allowed" "$@" || status=$?
  if ((allowed < case_seconds && (status == 124 || status == 137))); then
    unreached+=("$name") # the stage's time was over, not the case's
    return 0
  fi
  case $status in
    0) verdict=passed passed=$((passed + 1)) ;;
    124 | 137) verdict="failed (stopped)" failed+=("$name") ;;
    *) verdict="failed (status $status)" failed+=("$name") ;;
  esac
  ((status == 0)) || lines=60
  say "$stage: $name: $verdict after $((SECONDS - start)) s"
  tail -n "$lines" "$work/log"
  entry "$stage: $name" "$verdict" $((SECONDS - start)) "$lines" "$work/log" "$@"
}

end() {
  local left=""
  ((${#unreached[@]} == 0)) || printf -v left '; %s' "${unreached[@]}"
  say "$stage: $passed passed, ${#failed[@]} failed, ${#unreached[@]} not reached${left/;/:}"
  ((${#unreached[@]} == 0)) || outcome=3
  ((${#failed[@]} == 0)) || outcome=1
}

# ---- Stages

# Into include/ and lib/, which cmake/ComeraCarriedDependencies.cmake knows.
carry() {
  local packages=(libfmt-dev libfmt9 libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libhdf5-dev libaec-dev
    zlib1g-dev libsentencepiece-dev libsentencepiece0 libdnnl-dev libdnnl2 ocl-icd-libopencl1 libopenblas-openmp-dev
    libopenblas0-openmp libgfortran5 libquadmath0 libgtest-dev libgmock-dev)
  local libraries=(libfmt.so.9 libhdf5_serial.a libsz.a libaec.a libz.a libsentencepiece.so.0
    libsentencepiece_train.so.0 libdnnl.so.2 libOpenCL.so.1 libopenblas.so.0 libgfortran.so.5 libquadmath.so.0
    libgtest.a libgtest_main.a libgmock.a)
  local to=$work/dependencies from=$work/unpacked library package
  mkdir -p .carry
  printf '%s\n' "$commit" > .carry/commit
  if [[ -e $carried ]]; then
    say "carry: $carried is there"
    return 0
  fi
  mkdir "$work/packages" "$from"
  chmod 755 "$work" # apt downloads as a user of its own
  if ! limited "$stage_seconds" env -C "$work/packages" apt-get download "${packages[@]}"; then
    tail -n 5 "$work/log" >&2
    say "carry: the packages of Debian 12 cannot be downloaded here (are its lists up to date?)" >&2
    outcome=1
    return 0
  fi
  for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$from"; done
  mkdir -p "$to/include" "$to/lib"
  (cd "$from/usr/include" && cp -r fmt CLI toml++ nlohmann gtest gmock oneapi dnnl*.h* sentencepiece_*.h zlib.h zconf.h "$to/include")
  cp -r "$from/usr/include/hdf5/serial" "$to/include/hdf5"
  cp -r "$from"/usr/include/*/openblas-openmp "$to/include/openblas"
  find "$to/include" -name '*.mod' -delete # Fortran's
  for library in "${libraries[@]}"; do
    package=$(find "$from" -name "$library" | head -n 1)
    [[ -n $package ]] || fail "carry: none of the packages has $library"
    cp -L "$package" "$to/lib/$library"
  done
  find "$work/packages" -name '*.deb' -printf '%f\n' | sort > "$to/packages"
  tar -C "$to" --sort=name --owner=0 --group=0 -cJf "$work/archive" include lib packages
  mv "$work/archive" "$carried"
  say "carry: $carried has $(du -h --apparent-size "$carried" | cut -f 1)"
}

build() {
  local start=$SECONDS status=0 architecture="" options=() dependencies=""
  if [[ -e $carried ]]; then
    dependencies=$PWD/$build/dependencies
    if [[ ! $dependencies/packages -nt $carried ]]; then
      rm -rf "$dependencies"
      mkdir -p "$dependencies"
      tar -C "$dependencies" -xJf "$carried" --touch
    fi
  fi
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1 | tr -d .) || architecture=""
  case $architecture in
    "" | 90) architecture=90a ;; # Hopper's own instructions
  esac
  options=(-DCMAKE_BUILD_TYPE=Release "-DCOMERA_DEPENDENCIES=$dependencies"
    "-DCMAKE_CUDA_ARCHITECTURES=$architecture-real" -DCMAKE_CUDA_FLAGS=-lineinfo) # lines for compute-sanitizer
  [[ -z $gpu ]] || options+=(-DCOMERA_CUDA=ON)
  if [[ ! -e $build/CMakeCache.txt ]] && command -v ninja > /dev/null; then options+=(-G Ninja); fi
  if command -v ccache > /dev/null; then options+=(-DCMAKE_{C,CXX,CUDA}_COMPILER_LAUNCHER=ccache); fi

  local configure=(cmake -S . -B "$build" "${options[@]}")
  {
    cmake --version | head -n 1
    c++ --version | head -n 1
    nvcc --version 2> /dev/null | grep release || echo "no nvcc in PATH"
  } > "$work/tools"
  limited "$stage_seconds" "${configure[@]}" || status=$?
  grep '^-- CUDA backend' "$work/log" | tee -a "$work/tools" || true
  if ((status == 0)); then
    limited $((deadline - SECONDS)) cmake --build "$build" --parallel "$(nproc)" --target comera test_backends test_cpu \
      test_cuda test_cuda_emulated test_cuda_training || status=$?
  fi
  if ((status == 0)); then
    passed=1
    entry build passed $((SECONDS - start)) 10 "$work/tools" "${configure[@]}"
  elif ((status == 124 || status == 137)); then
    unreached=("the rest of the build")
  else
    failed=(build)
    # What CMake may have looked for, and what was said.
    find / -xdev \( -name 'libcublasLt.so*' -o -name cublasLt.h -o -name libcudart_static.a -o -name nvcc \) >> "$work/tools" 2> /dev/null || true
    grep -E -A 10 'error|Error' "$work/log" | head -n 60 >> "$work/tools" || tail -n 20 "$work/log" >> "$work/tools"
    cat "$work/tools"
    entry build "failed (status $status)" $((SECONDS - start)) 100 "$work/tools" "${configure[@]}"
  fi
  end
}

# Why no test can run on a GPU; nothing if they can.
why_no_gpu() {
  "$build/tests/cuda/test_cuda" --gtest_filter='CudaFeed.*' 2>&1 | sed -n '/: Skipped$/{n;p;q}' || true
}

test_on_gpu() {
  local ctest=(ctest --test-dir "$build" --no-tests=error --output-on-failure --parallel "$(nproc)")
  local suite reason
  reason=$(why_no_gpu)
  if [[ -n $reason ]]; then
    say "test: no GPU: $reason. THIS IS THE EMULATED FORM: the CUDA kernels run as host code"
    for suite in EmulatedMemory EmulatedFeed EmulatedOperations EmulatedNarrowOperations EmulatedTF32Operations EmulatedTraining EmulatedRun EmulatedNonfinite; do
      run_case "$suite, no GPU" 4 "${ctest[@]}" -R "^${suite}[.]"
    done
  else
    for suite in CudaFeed CudaOperations CudaNarrowOperations CudaTF32Operations CudaTraining CudaRun CudaNccl CudaNonfinite; do
      run_case "$suite" 4 "${ctest[@]}" -R "^$suite\$"
    done
  fi
  run_case "the CPU's backend" 4 "${ctest[@]}" -E '^(Cuda|Emulated)|NOT_BUILT'
  end
}

sanitize() {
  local program=$build/tests/cuda/test_cuda reason tool shard shards=6
  # Small shapes: the long ones go through the same lines.
  local filter='Cuda*Operations.*-*_long:*longest_512:*shared_groups'
  reason=$(why_no_gpu)
  if [[ -n $reason ]]; then
    say "sanitize: skipped: no GPU: $reason"
    return 0
  fi
  if ! command -v compute-sanitizer > /dev/null; then
    say "sanitize: skipped: compute-sanitizer is not here"
    return 0
  fi
  local status=0 found=9
  limited 120 compute-sanitizer --error-exitcode $found "$program" --gtest_filter='CudaFeed.*' || status=$?
  if ((status != 0 && status != found)); then
    say "sanitize: skipped: compute-sanitizer does not work here: $(grep -m 1 -iE 'not supported|error' "$work/log" || tail -n 1 "$work/log")"
    return 0
  fi
  for tool in memcheck racecheck; do
    for ((shard = 0; shard < shards; ++shard)); do
      run_case "$tool, part $((shard + 1)) of $shards" 5 env GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
        compute-sanitizer --tool "$tool" --error-exitcode $found "$program" --gtest_brief=1 "--gtest_filter=$filter"
    done
  done
  end
}

# A Python that has torch with a GPU.
find_torch() {
  local python
  for python in python3 /opt/torch/.venv/bin/python3; do
    if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' > /dev/null 2>&1; then
      echo "$python"
      return 0
    fi
  done
}

bench() {
  local reason precision batch length graph python
  reason=$(why_no_gpu)
  if [[ -n $reason ]]; then
    say "bench: skipped: no GPU: $reason"
    return 0
  fi
  # 128: every sequence padded to its longest, as PyTorch computes them; 40: MNLI's mean, which packing computes.
  for precision in fp32 tf32 bf16 fp8; do
    for length in 128 40; do
      for batch in 32 128; do
        for graph in on off; do
          run_case "comera $precision, $batch sequences of $length, graph $graph" 20 "$build/cli/comera" bench step \
            recipes/six_encoder_mnli.toml --vocabulary 30522 --device cuda --set "${precisions[$precision]}" \
            --tokens $((batch * length)) --length "$length" --graph "$graph"
        done
      done
    done
  done
  run_case "products in each precision" 60 "$build/cli/comera" bench precision --device cuda
  python=$(find_torch)
  if [[ -z $python ]]; then
    say "bench: PyTorch skipped: no Python here has torch with a GPU"
  else
    for compile in "" --compile; do
      for precision in fp32 tf32 bf16; do
        for batch in 32 128; do
          # shellcheck disable=SC2086 # nothing, or an option
          run_case "PyTorch $precision ${compile:-eager}, $batch sequences of 128" 3 "$python" bench/pytorch/step.py \
            --device cuda --precision "$precision" --batch "$batch" --length 128 $compile
        done
      done
    done
  fi
  end
}

need_build() {
  [[ -x $build/tests/cuda/test_cuda && -x $build/cli/comera ]] ||
    fail "$stage: nothing is built; run scripts/gpu_check.sh build first"
}

worst=0
for name in "${stages[@]}"; do
  begin "$name"
  case $name in
    carry) carry ;;
    build) build ;;
    test) need_build && test_on_gpu ;;
    sanitize) need_build && sanitize ;;
    bench) need_build && bench ;;
  esac
  if [[ $name == carry ]] && ((outcome != 0 && ${#stages[@]} > 1)); then
    say "carry: skipped: the system's packages are used"
    outcome=0
  fi
  if ((outcome == 1 || (outcome == 3 && worst == 0))); then worst=$outcome; fi
  [[ $name != build ]] || ((outcome == 0)) || break
done
[[ ! -e $results ]] || say "results: $results"
exit "$worst"
