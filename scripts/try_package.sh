#!/usr/bin/env bash
# Makes the Debian packages of build/release, installs the program's in a bare root of this machine's
# distribution, and does there what a new user does: a dry run, a little pretraining on a folder of code, its
# resumption, filling, an export. Needs root and mmdebstrap; ends with status 77 where they cannot be had.
#   scripts/try_package.sh [--development] [FOLDER]
# --development also installs libcomera-dev and builds tests/package with it; FOLDER keeps the packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
  printf 'try_package: skipped: %s\n' "$*"
  exit 77
}

development=""
case "${1:-}" in
  --development)
    development=yes
    shift
    ;;
  -h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  -*)
    printf "try_package: error: '%s' is not an option; see --help\n" "$1" >&2
    exit 1
    ;;
esac
[[ -x build/release/cli/comera ]] || {
  printf 'try_package: error: build the release preset first: cmake --build --preset release --target comera\n' >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages=${1:-$work/packages}
mkdir -p "$packages"
rm -f "$packages"/comera_*.deb "$packages"/libcomera-dev_*.deb # of a version before

cpack --config build/release/CPackConfig.cmake -B "$packages" > "$work/cpack.log" 2>&1 || {
  cat "$work/cpack.log"
  exit 1
}
program=$(find "$packages" -maxdepth 1 -name 'comera_*.deb')
library=$(find "$packages" -maxdepth 1 -name 'libcomera-dev_*.deb')
ls -l "$packages"/*.deb
dpkg-deb --field "$program" Version Depends

((EUID == 0)) || skip "a bare root needs the rights of root"
command -v mmdebstrap > /dev/null || skip "mmdebstrap is missing; scripts/setup.sh --dev installs it"
mapfile -t sources < <(find /etc/apt/sources.list /etc/apt/sources.list.d -maxdepth 1 -type f -size +1c \
  \( -name '*.list' -o -name '*.sources' \) 2> /dev/null)
((${#sources[@]} > 0)) || skip "no list of apt's sources was found"
# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "$VERSION_CODENAME")

mkdir "$work/code"
cp kernels/core/*.cpp kernels/core/*.h data/corpus/*.cpp data/corpus/*.h data/shards/*.cpp data/shards/*.h "$work/code"
cat > "$work/code/try.sh" << 'TRY'
set -eux
export OMP_NUM_THREADS=2
cd /tmp
comera --version
comera pretrain quickstart --input /code --vocabulary 2000 --output run --dry-run
test ! -e run
comera pretrain quickstart --input /code --vocabulary 2000 --output run --set phase.0.steps=20 \
  --set phase.0.warmup_steps=5 --set phase.1.steps=10 --stop-after 10
comera resume run
comera fill-mask run 'const [MASK] x = 1;'
comera export run --to elsewhere
ls -l elsewhere
TRY
# mmdebstrap calls it with the new root.
cat > "$work/hook" << HOOK
#!/bin/sh
set -e
cp -r "$work/code" "\$1/code"
cp "$program" "\$1/tmp/comera.deb"
chroot "\$1" apt-get install --yes --quiet --no-install-recommends /tmp/comera.deb > "$work/install.log" 2>&1 ||
  { cat "$work/install.log"; exit 1; }
chroot "\$1" sh /code/try.sh
HOOK
if [[ -n $development ]]; then
  cp -r tests/package "$work/code/package"
  cat >> "$work/hook" << HOOK
cp "$library" "\$1/tmp/libcomera-dev.deb"
chroot "\$1" apt-get install --yes --quiet --no-install-recommends g++ cmake make /tmp/libcomera-dev.deb > "$work/install.log" 2>&1 ||
  { cat "$work/install.log"; exit 1; }
chroot "\$1" cmake -S /code/package -B /tmp/package
chroot "\$1" cmake --build /tmp/package
HOOK
fi
printf 'touch "%s/tried"\n' "$work" >> "$work/hook"
sed -i "2i touch '$work/made'" "$work/hook"
chmod +x "$work/hook"
mmdebstrap --quiet --variant=apt --customize-hook="$work/hook" "$release" /dev/null "${sources[@]}" || {
  [[ -e $work/made ]] || skip "mmdebstrap could not make a bare root; is a mirror of $release reached?"
  [[ -e $work/tried ]] || {
    printf 'try_package: the installed program failed\n'
    exit 1
  }
  printf 'try_package: the root could not be removed\n'
  exit 1
}
printf 'try_package: installed and tried in a bare root of %s\n' "$release"
