#!/usr/bin/env bash
# Tests and measures the CUDA backend on a machine with a GPU that is there for minutes and where nothing can be
# installed: with programs that were built elsewhere, or, if they do not start there, with what it builds itself.
#   scripts/gpu_check.sh [--output DIR] [--seconds N] [--processes N] [--rehearse] STAGE ...
# Stages:
#   carry     where it is built (Debian 12 with nvcc): packs into .carry/ the programs for one kind of GPU (--gpu 90a)
#             with their libraries, and the libraries that a build there needs
#   start     on the machine with the GPU: unpacks the programs and starts them; builds them if they do not start
#   test      the CUDA tests, in several processes: a case that spoils its process is named, and the rest goes on
#   steps     training steps of the six-encoder in bfloat16, with and without graphs, and where their time goes
#   language  steps of codebert_base and codebert_large, sequences of 128 and 512, beside PyTorch's where torch is found
#   pytorch   the same steps as in 'steps' of PyTorch's dense model, where torch is found
#   sanitize  compute-sanitizer's memcheck and racecheck over the tests of the CUDA operations
#   more      steps in fp32, TF32 and 8 bits, and products in each precision
#   all       start, test, steps, language, pytorch: the first call
# Each stage ends after N seconds (480). Every case is appended to DIR/gpu-check-SOURCES.md (bench/results) when it
# ends, and is not run again while it stands there and the sources are the same: the same call goes on where it
# stopped. The last line names the tests that fail and the operations that lose most time. The exit status is 1 if
# something failed and 3 if cases are left for another call. --rehearse: without a GPU, with the emulated tests, and
# the CPU's steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C PATH="$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin"

build=build/gpu
carried=.carry/dependencies.tar.xz
programs=.carry/programs.tar.xz
output=bench/results
stage_seconds=480
processes=$(($(nproc) < 14 ? $(nproc) : 14))
rehearsal=false
architecture=90a
case_seconds=450 # a case that is begun first ends within a stage

say() { printf 'gpu_check: %s\n' "$*"; }
fail() {
  printf 'gpu_check: error: %s\n' "$*" >&2
  exit 1
}

stages=()
while (($# > 0)); do
  case "$1" in
    --output | --seconds | --processes | --gpu)
      (($# > 1)) || fail "$1 needs a value"
      case "$1" in
        --output) output=$2 ;;
        --seconds) stage_seconds=$2 ;;
        --processes) processes=$2 ;;
        --gpu) architecture=$2 ;;
      esac
      shift
      ;;
    --rehearse) rehearsal=true ;;
    carry | start | test | steps | language | pytorch | sanitize | more) stages+=("$1") ;;
    all) stages+=(start test steps language pytorch) ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' scripts/gpu_check.sh
      exit 0
      ;;
    *) fail "'$1' is not a stage; see --help" ;;
  esac
  shift
done
((${#stages[@]} > 0)) || fail "name a stage; see --help"
[[ $stage_seconds =~ ^[1-9][0-9]*$ ]] || fail "'$stage_seconds' is no number of seconds"
[[ $processes =~ ^[1-9][0-9]*$ ]] || fail "'$processes' is no number of processes"
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
children=() # of a suite that runs in several processes
# shellcheck disable=SC2317 # called by the trap
stop() {
  local process
  for process in $child "${children[@]}"; do kill "$process" 2> /dev/null || true; done
  exit 130
}
trap stop INT TERM

# ---- Results

# A copy of the sources without their history has the commit from when its dependencies were packed.
commit=$(git describe --always --dirty --abbrev=12 2> /dev/null || cat .carry/commit 2> /dev/null || echo unknown)
sources=$(find . \( -path ./.git -o -path ./.carry -o -path './build*' -o -path ./runs \) -prune -o -type f \( -name '*.h' -o -name '*.cpp' \
  -o -name '*.cu' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.toml' \) -print0 | sort -z | xargs -0 sha1sum | sha1sum | cut -c 1-10)
mkdir -p "$output"
results=$output/gpu-check-$sources.md
$rehearsal && results=$output/gpu-check-rehearsal-$sources.md
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1 | sed 's/, /, driver /') || gpu=""
machine="${gpu:-no GPU}; $(nproc) × $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"

# entry NAME VERDICT SECONDS LINES LOG COMMAND...
entry() {
  local name=$1 verdict=$2 seconds=$3 lines=$4 log=$5
  shift 5
  [[ -e $results ]] || printf '# CUDA backend%s, commit %s, sources %s\n' "$($rehearsal && echo ', a rehearsal without a GPU')" "$commit" "$sources" > "$results"
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
skipped=0
failed=()
unreached=()
fails=() # of all stages

begin() {
  stage=$1
  outcome=0
  deadline=$((SECONDS + stage_seconds))
  passed=0
  skipped=0
  failed=()
  unreached=()
  printf '\n== %s\n' "$stage"
}

# count VERDICT NAME
count() {
  case $1 in
    passed*) passed=$((passed + 1)) ;;
    skipped*) skipped=$((skipped + 1)) ;;
    *) failed+=("$2") ;;
  esac
}

# Whether a case's verdict stands in the results; it is counted then.
stands() {
  local verdict
  verdict=$(grep -xFA 1 "## $stage: $1" "$results" 2> /dev/null | sed -n '2s/ after .*//p' | tail -n 1) || verdict=""
  [[ -n $verdict && $verdict != unfinished* ]] || return 1
  say "$stage: $1: $verdict before, see $results"
  count "$verdict" "$1"
  [[ $verdict == passed || $verdict == skipped ]] || fails+=("$1")
}

# run_case NAME LINES COMMAND...: runs it unless it stands in the results, within what is left of the stage's time.
run_case() {
  local name=$1 lines=$2 status=0 start=$SECONDS allowed verdict
  shift 2
  ! stands "$name" || return 0
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
    0) verdict=passed ;;
    124 | 137) verdict="failed (stopped)" ;;
    *) verdict="failed (status $status)" ;;
  esac
  count "$verdict" "$name"
  ((status == 0)) || { lines=60 && fails+=("$name"); }
  say "$stage: $name: $verdict after $((SECONDS - start)) s"
  tail -n "$lines" "$work/log"
  entry "$stage: $name" "$verdict" $((SECONDS - start)) "$lines" "$work/log" "$@"
}

end() {
  local left=""
  ((${#unreached[@]} == 0)) || printf -v left '; %s' "${unreached[@]}"
  say "$stage: $passed passed, ${#failed[@]} failed, $skipped skipped, ${#unreached[@]} not reached${left/;/:}"
  ((${#unreached[@]} == 0)) || outcome=3
  ((${#failed[@]} == 0)) || outcome=1
}

# ---- Building and carrying

# configure ARCHITECTURE OPTION...: prepares build/gpu; what CMake says about CUDA goes to $work/tools, too.
configure() {
  local architecture=$1 options=(-DCMAKE_BUILD_TYPE=Release)
  shift
  options+=("-DCMAKE_CUDA_ARCHITECTURES=$architecture-real" -DCMAKE_CUDA_FLAGS=-lineinfo "$@") # lines for compute-sanitizer
  if [[ ! -e $build/CMakeCache.txt ]] && command -v ninja > /dev/null; then options+=(-G Ninja); fi
  if command -v ccache > /dev/null; then options+=(-DCMAKE_{C,CXX,CUDA}_COMPILER_LAUNCHER=ccache); fi
  limited "$stage_seconds" cmake -S . -B "$build" "${options[@]}" || return
  grep -E '^-- (CUDA backend|Several GPUs)' "$work/log" | tee -a "$work/tools" || true
}

targets=(comera test_cuda)
! $rehearsal || targets+=(test_cuda_emulated test_cuda_training)
built() { printf '%s\n' "$build/cli/comera" "$build/tests/cuda/test_cuda"* | grep -E '/(comera|test_cuda|test_cuda_emulated|test_cuda_training)$'; }

# Everything that the machine with the GPU needs, and it has: the C and C++ libraries.
carry_programs() {
  local to=$work/programs program
  configure "$architecture" -DCOMERA_CUDA=ON && limited $((deadline - SECONDS)) cmake --build "$build" --parallel 2 --target "${targets[@]}" || return
  mkdir -p "$to/lib"
  while read -r program; do
    strip --strip-debug -o "$to/$(basename "$program")" "$program" # the lines of kernels stay
    ldd "$program"
  done < <(built) | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|libcuda)[.]so' | xargs cp -Lt "$to/lib"
  pwd > "$to/source"
  printf '%s\n' "$sources" > "$to/sources"
  tar -C "$to" --sort=name --owner=0 --group=0 -cf - . | xz -T2 -1 > "$work/archive"
  mv "$work/archive" "$programs"
  say "carry: $programs has $(du -h --apparent-size "$programs" | cut -f 1), for sm_$architecture"
}

# Into include/ and lib/, which cmake/ComeraCarriedDependencies.cmake knows.
carry_dependencies() {
  local packages=(libfmt-dev libfmt9 libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libhdf5-dev libaec-dev
    zlib1g-dev libzstd-dev libsentencepiece-dev libsentencepiece0 libdnnl-dev libdnnl2 ocl-icd-libopencl1 libopenblas-openmp-dev
    libopenblas0-openmp libgfortran5 libquadmath0 libgtest-dev libgmock-dev)
  local libraries=(libfmt.so.9 libhdf5_serial.a libsz.a libaec.a libz.a libzstd.a libsentencepiece.so.0
    libsentencepiece_train.so.0 libdnnl.so.2 libOpenCL.so.1 libopenblas.so.0 libgfortran.so.5 libquadmath.so.0
    libgtest.a libgtest_main.a libgmock.a)
  local to=$work/dependencies from=$work/unpacked library package
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
  (cd "$from/usr/include" && cp -r fmt CLI toml++ nlohmann gtest gmock oneapi dnnl*.h* sentencepiece_*.h zlib.h zconf.h zstd*.h "$to/include")
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

carry() {
  mkdir -p .carry
  printf '%s\n' "$commit" > .carry/commit
  if ! carry_programs; then
    tail -n 20 "$work/log" >&2
    say "carry: the programs could not be built and packed" >&2
    outcome=1
  fi
  carry_dependencies
}

# ---- The machine with the GPU

# Where the programs are, and the libraries that they load: ours, PyTorch's, CUDA's.
unpacked=build/gpu-programs
comera="" tests=""
use_programs() {
  local of_python=""
  if [[ -x $unpacked/comera && $(cat $unpacked/sources) == "$sources" ]]; then
    comera=$unpacked/comera tests=$unpacked
    if command -v python3 > /dev/null; then
      of_python=$(python3 -c "import glob, sys; print(':'.join(f for p in sys.path if p for f in glob.glob(p + '/nvidia/*/lib')))")
    fi
    export LD_LIBRARY_PATH=$PWD/$unpacked/lib:$of_python:/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}
  elif [[ -x $build/tests/cuda/test_cuda ]]; then
    comera=$build/cli/comera tests=$build/tests/cuda
  else
    return 1
  fi
  export GOMP_SPINCOUNT=1000
}

start() {
  local begun=$SECONDS status=0 source
  {
    uname -srm
    nproc
    cmake --version | head -n 1 || true
    c++ --version | head -n 1 || true
    nvcc --version | grep release || echo "no nvcc in PATH"
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader || true
  } > "$work/tools" 2>&1
  if [[ -e $programs && $(tar -xOJf $programs ./sources) == "$sources" ]]; then
    rm -rf $unpacked
    mkdir -p $unpacked
    tar -C $unpacked -xJf $programs --touch
    source=$(cat $unpacked/source)
    # Tests know the folder that they were built in.
    [[ -e $source ]] || { mkdir -p "$(dirname "$source")" && ln -s "$PWD" "$source"; } || true
  elif [[ -e $programs ]]; then
    say "start: $programs is of other sources"
  fi
  if use_programs && limited 60 "$comera" --version && limited 60 "$tests/test_cuda" --gtest_list_tests; then
    passed=1
    say "start: $comera starts"
    entry start passed $((SECONDS - begun)) 10 "$work/tools" "$comera" --version
  else
    [[ ! -s $work/log ]] || { say "start: $comera does not start:" && tail -n 3 "$work/log"; }
    rm -rf $unpacked
    build_here
  fi
  end
}

build_here() {
  local begun=$SECONDS status=0 architecture="" dependencies=""
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
  local options=("-DCOMERA_DEPENDENCIES=$dependencies")
  [[ -z $gpu ]] || options+=(-DCOMERA_CUDA=ON)
  configure "$architecture" "${options[@]}" &&
    limited $((deadline - SECONDS)) cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" || status=$?
  if ((status == 0)); then
    passed=1
    use_programs
    entry "start: build" passed $((SECONDS - begun)) 10 "$work/tools" cmake -S . -B "$build" "${options[@]}"
  elif ((status == 124 || status == 137)); then
    unreached=("the rest of the build")
  else
    failed+=(build)
    # What CMake may have looked for, and what was said.
    timeout 20 find / -xdev \( -name 'libcublasLt.so*' -o -name cublasLt.h -o -name libcudart_static.a -o -name nvcc \) >> "$work/tools" 2> /dev/null || true
    grep -E -A 10 'error|Error' "$work/log" | head -n 60 >> "$work/tools" || tail -n 20 "$work/log" >> "$work/tools"
    cat "$work/tools"
    entry "start: build" "failed (status $status)" $((SECONDS - begun)) 100 "$work/tools" cmake -S . -B "$build" "${options[@]}"
  fi
}

# Why no test can run on a GPU; nothing if they can.
why_no_gpu() {
  "$tests/test_cuda" --gtest_filter='CudaFeed.*' 2>&1 | sed -n '/: Skipped$/{n;p;q}' || true
}

# ---- Tests

# After these a process cannot use the GPU any more.
spoils='illegal memory access|unspecified launch failure|misaligned address|an illegal|device-side assert|launch timed out|hardware stack error|invalid program counter'

# run_list PROGRAM LIST UNTIL: a process after the other until each case of the file LIST has a verdict in
# LIST.verdicts, or it is UNTIL. A case that ends or spoils its process is named; the next goes on behind it.
run_list() {
  local program=$1 list=$2 left status
  child=""
  trap '[[ -z $child ]] || kill "$child" 2> /dev/null; exit 130' INT TERM
  touch "$list.verdicts"
  while [[ -s $list ]] && left=$(($3 - SECONDS)) && ((left > 0)); do
    status=0
    GTEST_FILTER=$(paste -sd : "$list") timeout --kill-after=5 "$left" "$program" > "$list.log" 2>&1 < /dev/null &
    child=$!
    wait "$child" || status=$?
    awk -v status=$status -v spoils="$spoils" '
      function verdict(word) { printf "%s\t%s\t%s\n", word, name, substr(message, 1, 400); name = "" }
      /^\[ RUN      \] / { name = $4; message = ""; next }
      name == "" { next }
      /^\[       OK \] / { verdict("passed"); next }
      /^\[  SKIPPED \] / { verdict("skipped"); next }
      /^\[  FAILED  \] / { spoiled = message ~ spoils; verdict("failed"); if (spoiled) exit; next }
      { message = message (message == "" ? "" : " / ") $0 }
      END { if (name != "" && status != 124 && status != 137) verdict("crashed (status " status ")") }' "$list.log" > "$list.new"
    if [[ ! -s $list.new ]] && ((status != 124 && status != 137)); then
      printf 'crashed (status %d)\t%s\t%s\n' $status "$(head -n 1 "$list")" "$(tail -n 1 "$list.log")" > "$list.new"
    fi
    cat "$list.new" >> "$list.verdicts"
    cut -f 2 "$list.new" | grep -vxFf - "$list" > "$list.left" || true
    mv "$list.left" "$list"
  done
}

# run_suite PROGRAM SUITE: its cases in several processes, within what is left of the stage's time.
run_suite() {
  local program=$1 suite=$2 begun=$SECONDS allowed=$((deadline - SECONDS)) list workers=() cases reached bad verdict
  ! stands "$suite" || return 0
  if ((allowed < 1)); then
    unreached+=("$suite")
    return 0
  fi
  ((allowed < case_seconds)) || allowed=$case_seconds
  rm -f "$work"/list.*
  "$program" --gtest_list_tests 2> /dev/null |
    awk '/^[^ ]/ {suite = $1; next} {print suite $1}' | grep -E "(^|/)${suite}[.]" > "$work/cases" || true
  awk -v n="$processes" -v list="$work/list." '{print > (list NR % n)}' "$work/cases"
  for list in "$work"/list.*; do
    run_list "$program" "$list" $((SECONDS + allowed)) &
    workers+=($!)
  done
  children=("${workers[@]}")
  wait "${workers[@]}" || true
  children=()
  cat "$work"/list.*.verdicts > "$work/verdicts"
  cases=$(wc -l < "$work/cases")
  reached=$(wc -l < "$work/verdicts")
  bad=$(grep -cvE '^(passed|skipped)' "$work/verdicts" || true)
  {
    printf '%d cases: ' "$cases"
    cut -f 1 "$work/verdicts" | sort | uniq -c | awk '{n = $1; $1 = ""; printf "%d%s, ", n, $0}'
    printf '%d not reached\n' $((cases - reached))
    grep -vE '^(passed|skipped)' "$work/verdicts" | sed 's/\t/ /g' || true
    grep -m 1 '^skipped' "$work/verdicts" | sed 's/\t/ /g' || true
  } > "$work/log"
  verdict=passed
  if ((cases == 0)); then
    verdict="failed (no cases)"
    fails+=("$suite")
  elif ((bad > 0)); then
    verdict="failed ($bad cases)"
  elif ((reached > 0 && reached == $(grep -c '^skipped' "$work/verdicts" || true))); then
    verdict=skipped
  fi
  if ((reached < cases)); then
    unreached+=("$suite ($((cases - reached)) of $cases cases)")
    verdict="unfinished, $verdict"
  else
    count "$verdict" "$suite"
  fi
  while read -r name; do fails+=("$name"); done < <(grep -vE '^(passed|skipped)' "$work/verdicts" | cut -f 2)
  say "$stage: $suite: $verdict after $((SECONDS - begun)) s: $(head -n 1 "$work/log")"
  sed -n '2,20p' "$work/log" | cut -c 1-300
  entry "$stage: $suite" "$verdict" $((SECONDS - begun)) 200 "$work/log" "$program" "--gtest_filter='*$suite.*'"
}

test_on_gpu() {
  local suite reason program
  if $rehearsal; then
    for suite in EmulatedMemory EmulatedNorms EmulatedOperations EmulatedNarrowOperations EmulatedTF32Operations EmulatedTraining; do
      program=$tests/test_cuda_emulated
      [[ $suite != EmulatedTraining ]] || program=$tests/test_cuda_training
      run_suite "$program" "$suite"
    done
  else
    reason=$(why_no_gpu)
    [[ -z $reason ]] || fail "test: no GPU: $reason; --rehearse runs the emulated tests"
    for suite in CudaFeed CudaOperations CudaNarrowOperations CudaTF32Operations CudaTraining CudaRun CudaNonfinite CudaNccl; do
      run_suite "$tests/test_cuda" "$suite"
    done
  fi
  end
}

sanitize() {
  local program=$tests/test_cuda reason tool shard shards=6
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

# ---- Steps

# step NAME PRECISION TOKENS OPTION...: a training step of the six-encoder, of ours and of its dense baseline.
step() {
  local name=$1 precision=$2 tokens=$3 device=cuda
  shift 3
  ! $rehearsal || device=cpu
  run_case "$precision, $tokens tokens, $name" 75 "$comera" bench step recipes/six_encoder_mnli.toml --vocabulary 30522 \
    --device "$device" --set "precision.compute=\"$precision\"" --tokens "$tokens" --length 128 --repeats 5 "$@"
}

steps() {
  local sizes=(16384 5120 32768) tokens
  ! $rehearsal || sizes=(512)
  for tokens in "${sizes[@]}"; do
    step "profile" bf16 "$tokens" --profile
    step "without graphs" bf16 "$tokens" --graph off --only-tensorized
  done
  $rehearsal || step "packed pairs of 40" bf16 5120 --length 40 # MNLI's mean; others pad these to 16,384 tokens
  end
}

more() {
  local precision
  ! $rehearsal || return 0
  for precision in fp32 tf32 fp8; do step "graphs" "$precision" 16384; done
  run_case "products in each precision" 60 "$comera" bench precision --device cuda
  end
}

# A Python that has torch, with a GPU.
find_torch() {
  local python usable='torch.cuda.is_available()'
  ! $rehearsal || usable=True
  for python in python3 /opt/torch/.venv/bin/python3; do
    if "$python" -c "import sys, torch; sys.exit(not $usable)" > /dev/null 2>&1; then
      echo "$python"
      return 0
    fi
  done
}

# Recipes with a masked-language head; PyTorch's dense model has their sizes.
language() {
  local python length recipe sizes tokens=16384 device=cuda lengths=(128 512)
  python=$(find_torch)
  ! $rehearsal || { tokens=512 && device=cpu && lengths=(128); }
  for recipe in codebert_base codebert_large; do
    ! $rehearsal || [[ $recipe == codebert_base ]] || continue
    sizes="--layers 12 --hidden 768 --heads 12"
    [[ $recipe == codebert_base ]] || sizes="--layers 24 --hidden 1024 --heads 16"
    for length in "${lengths[@]}"; do
      run_case "$recipe, $tokens tokens, sequences of $length" 75 "$comera" bench step "recipes/$recipe.toml" \
        --vocabulary 50265 --device "$device" --set 'precision.compute="bf16"' --tokens "$tokens" --length "$length" \
        --repeats 5 --only-tensorized --profile
      [[ -n $python ]] || continue
      # shellcheck disable=SC2086 # several options
      run_case "PyTorch of $recipe's size, compiled, sequences of $length" 3 "$python" bench/pytorch/masked_language.py \
        --device "$device" --precision bf16 --vocabulary 50265 --tokens "$tokens" --length "$length" $sizes --compile
    done
  done
  end
}

pytorch() {
  local python compile batch batches=(128 40 256) device=cuda
  ! $rehearsal || { batches=(2) && device=cpu; }
  python=$(find_torch)
  if [[ -z $python ]]; then
    say "pytorch: skipped: no Python here has torch with a GPU"
    return 0
  fi
  for compile in --compile ""; do
    for batch in "${batches[@]}"; do
      # shellcheck disable=SC2086 # nothing, or an option
      run_case "bf16 ${compile:-eager}, $batch sequences of 128" 3 "$python" bench/pytorch/step.py \
        --device "$device" --precision bf16 --batch "$batch" --length 128 $compile
    done
  done
  end
}

worst=0
for name in "${stages[@]}"; do
  begin "$name"
  if [[ $name != carry && $name != start ]]; then
    use_programs || fail "$name: there are no programs of these sources; run scripts/gpu_check.sh start first"
  fi
  case $name in
    carry) carry ;;
    start) start ;;
    test) test_on_gpu ;;
    steps) steps ;;
    language) language ;;
    pytorch) pytorch ;;
    sanitize) sanitize ;;
    more) more ;;
  esac
  if ((outcome == 1 || (outcome == 3 && worst == 0))); then worst=$outcome; fi
  [[ $name != start ]] || ((outcome == 0)) || break
done
if [[ -e $results ]]; then
  say "results: $results"
  printf -v names '%s, ' "${fails[@]}"
  slow=$(sed -n 's/^ *furthest above their floor: //p' "$results" | head -n 1)
  say "fails: $( ((${#fails[@]} == 0)) && echo nothing || echo "${names%, }"); furthest above their floor: ${slow:-not measured}"
fi
exit "$worst"
