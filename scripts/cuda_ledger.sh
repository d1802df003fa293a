#!/usr/bin/env bash
# What each kernel of kernels/cuda takes of each architecture: compiles them (the release preset's library)
# and writes the table docs/lab/cuda-ledger.md. Needs nvcc, but no GPU. A kernel that spills registers is an error.
#   scripts/cuda_ledger.sh          writes the table
#   scripts/cuda_ledger.sh --check  compares it with the checked-in one instead, and prints what differs
# The exit status is 77 where nvcc is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

ledger=docs/lab/cuda-ledger.md
objects=build/release/kernels/cuda/CMakeFiles/comera_cuda.dir
architectures=(sm_80 sm_90a sm_100 sm_120)

fail() {
  printf 'cuda_ledger: error: %s\n' "$*" >&2
  exit 1
}

check=false
case "${1:-}" in
  "") ;;
  --check) check=true ;;
  -h | --help)
    sed -n '2,6s/^# \{0,1\}//p' scripts/cuda_ledger.sh
    exit 0
    ;;
  *) fail "'$1' is not an option; see --help" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

backend=$(cmake --preset release | sed -n 's/^-- CUDA backend: //p')
if [[ $backend != "built with"* ]]; then
  printf 'cuda_ledger: skipped: the CUDA backend is %s\n' "$backend"
  exit 77
fi
version=$(cut -d ' ' -f 4 <<< "$backend") # "built with CUDA 13.0.88 for …"
cmake --build --preset release -j 2 --target comera_cuda > "$work/build" || {
  cat "$work/build" >&2
  fail "the kernels do not compile"
}

# What 'ptxas -v' said while they were compiled (cmake/record_ptxas.sh), as lines of file, kernel, architecture,
# registers, and bytes spilled, of the stack and of shared memory.
for source in kernels/cuda/*.cu kernels/cuda/*/*.cu; do
  file=$(basename "$source")
  object=$objects/${source#kernels/cuda/}.o
  [[ -e $object ]] || fail "$source is not in kernels/cuda/CMakeLists.txt"
  [[ -e $object.ptxas ]] || continue # compiled as host code
  awk -v OFS='\t' -v file="$file" '
    function before(word, i) { for (i = 2; i <= NF; ++i) if ($i == word) return $(i - 1); return 0 }
    { gsub(/[,\047]| bytes/, "") }
    /Compiling entry function/ { kernel = $(NF - 2); architecture = $NF; spilled = stack = 0 }
    /stack frame/              { stack += $1; spilled += $4 + $7 }
    /Used .* registers/        { print file, kernel, architecture, before("registers"), spilled, stack, before("smem") }
  ' "$object.ptxas"
done | c++filt -p | sed 's/comera::cuda:://g; s/comera:://g; s/(anonymous namespace):://g' | sort > "$work/kernels"
[[ -s $work/kernels ]] || fail "no kernel was found in $objects"

found=$(cut -f 3 "$work/kernels" | sort -u | tr '\n' ' ')
wanted=$(printf '%s\n' "${architectures[@]}" | sort | tr '\n' ' ')
[[ $found == "$wanted" ]] || fail "this build is for ${found% }: the table needs ${wanted% }"

if awk -F '\t' '$5 > 0 { printf "%s: %s spills %d bytes on %s\n", $1, $2, $5, $3 }' "$work/kernels" | grep . >&2; then
  fail "no kernel may spill registers to memory"
fi

{
  cat << TEXT
# Resources of CUDA kernels
This page lists the registers that each kernel of \`kernels/cuda\` takes per thread on each architecture.

The compiler is nvcc $version. No kernel spills registers into memory; static shared memory and stack are named in
bytes where a kernel has some. Dynamic shared memory, which a launch asks for, is not listed. The kernels of sm_90a
have run on an H100 and an H200; the others are only compiled.

\`scripts/cuda_ledger.sh\` writes this page; \`scripts/cuda_ledger.sh --check\` compares it with what is compiled.

TEXT
  printf '| file | kernel |'
  printf ' %s |' "${architectures[@]}"
  printf '\n|---|---|'
  printf -- '---|%.0s' "${architectures[@]}"
  awk -F '\t' -v architectures="${architectures[*]}" '
    BEGIN { count = split(architectures, order, " ") }
    function end_row(i) { if (row != "") for (i = 1; i <= count; i++) printf " %s |", (order[i] in cell) ? cell[order[i]] : "–"; split("", cell) }
    {
      if ($1 FS $2 != row) { end_row(); row = $1 FS $2; printf "\n| %s | `%s` |", $1, $2 }
      cell[$3] = $4 ($6 > 0 ? ", stack " $6 : "") ($7 > 0 ? ", shared " $7 : "")
    }
    END { end_row(); print "" }' "$work/kernels"
} > "$work/ledger"

kernels=$(cut -f 1,2 "$work/kernels" | sort -u | wc -l)
say() { printf 'cuda_ledger: %d kernels for %d architectures, none spills%s\n' "$kernels" "${#architectures[@]}" "$1"; }
if ! $check; then
  cp "$work/ledger" "$ledger"
  say "; written to $ledger"
elif ! grep -qF "nvcc $version. " "$ledger"; then
  say "; $ledger is of another version of nvcc than this $version and is not compared"
elif diff -u "$ledger" "$work/ledger"; then
  say "; $ledger is up to date"
else
  fail "$ledger differs from what is compiled; write it anew with scripts/cuda_ledger.sh"
fi
