#!/usr/bin/env bash
# Installs the packages of Debian 12 that building, running and testing need: only those that are missing.
#   scripts/setup.sh          compiler, build tools and libraries
#   scripts/setup.sh --dev    also what .ci/run checks the sources with
#   scripts/setup.sh --also PACKAGE
#   scripts/setup.sh --arrow FOLDER   also Apache Arrow's library, from its wheel: cmake -DCOMERA_ARROW=FOLDER/pyarrow
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config                             # to build
  libfmt-dev libcli11-dev libtomlplusplus-dev                         # text, command line, recipes
  libhdf5-dev zlib1g-dev libzstd-dev                                  # files, compression
  libsentencepiece-dev nlohmann-json3-dev                             # tokenizers, JSON
  libdnnl-dev                                                         # matrix products
  libopenblas-openmp-dev                                              # singular values (TT-SVD)
  libopenmpi-dev openmpi-bin                                          # several processes
  libgtest-dev libgmock-dev libbenchmark-dev                          # tests and micro-benchmarks
)

arrow=""

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

while (($# > 0)); do
  case "$1" in
    --dev) packages+=(git clang clang-format clang-tidy libclang-rt-dev libomp-dev shellcheck dpkg-dev mmdebstrap python3-dev python3-venv) ;; # clang needs its own omp.h
    --also)
      (($# > 1)) || fail "--also needs the name of a package"
      packages+=("$2")
      shift
      ;;
    --arrow)
      (($# > 1)) || fail "--arrow needs a folder"
      arrow=$2
      packages+=(python3-pip unzip)
      shift
      ;;
    -h | --help)
      sed -n '2,6s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) fail "'$1' is not an option; see --help" ;;
  esac
  shift
done

system="an unknown system"
family=""
if [[ -r /etc/os-release ]]; then
  # shellcheck disable=SC1091
  system=$(. /etc/os-release && echo "${PRETTY_NAME:-$ID}")
  # shellcheck disable=SC1091
  family=$(. /etc/os-release && echo "${ID:-} ${ID_LIKE:-}")
fi
if ! command -v apt-get > /dev/null || [[ " $family " != *" debian "* ]]; then
  fail "this is $system, and only Debian and Ubuntu are set up by this script; install what stands for" \
    "these packages, then build with 'cmake --preset release': ${packages[*]}"
fi

is_installed() { [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$1" 2> /dev/null)" == ii* ]]; }

# The wheel of pyarrow holds the library with its headers.
fetch_arrow() {
  [[ -n $arrow ]] || return 0
  if [[ -e $arrow/pyarrow/include/arrow/api.h ]]; then
    say "$arrow/pyarrow is there"
    return 0
  fi
  local wheel
  wheel=$(mktemp -d)
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$wheel" 'pyarrow>=26,<27' ||
    fail "the wheel of pyarrow could not be downloaded"
  mkdir -p "$arrow"
  unzip -q "$wheel"/pyarrow-*.whl 'pyarrow/include/*' 'pyarrow/libarrow.so.*' 'pyarrow/libparquet.so.*' -d "$arrow"
  rm -rf "$wheel"
  say "Apache Arrow's library is in $arrow/pyarrow"
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  say "all ${#packages[@]} packages are installed"
  fetch_arrow
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null ||
    fail "these packages are missing, and neither root nor sudo is here to install them: ${missing[*]}"
  as_root=(sudo)
fi
say "installing ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" < /dev/null; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { apt install -y --no-install-recommends "${missing[@]}" > "$log" 2>&1; }
# The lists of packages may be absent or out of date.
if ! install; then
  apt update > "$log" 2>&1 || say "the lists of packages could not be brought up to date: $(tail -n 1 "$log")"
  if ! install; then
    tail -n 20 "$log" >&2
    fail "apt-get could not install these packages: ${missing[*]}"
  fi
fi
fetch_arrow
say "done"
