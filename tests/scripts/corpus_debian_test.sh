#!/usr/bin/env bash
# scripts/corpus_debian.sh with packages that are made here: files of the language get through, also out of archives
# of sources, each package whole and in its part; nothing is made again; what is wrong is refused.
#   corpus_debian_test.sh PROJECT SCRATCH
set -euo pipefail
project=$1 scratch=$2
for tool in xz unzip; do
  command -v "$tool" > /dev/null || { printf 'corpus_debian_test: skipped: no %s\n' "$tool" && exit 77; }
done
rm -rf "$scratch"
mkdir -p "$scratch"/{bin,packages}
fail() {
  printf 'corpus_debian_test: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=debian_packages.sh disable=SC1091
source "$project/tests/scripts/debian_packages.sh"
export PATH=$scratch/bin:$PATH
file() {
  mkdir -p "$(dirname "$scratch/packages/$1")"
  printf '%s\n' "$2" > "$scratch/packages/$1"
}
run() { "$project/scripts/corpus_debian.sh" "$scratch/corpus" "$@"; }

file openjdk-17-source/usr/lib/jvm/Plain.java 'class Plain {}'
file openjdk-17-source/usr/lib/jvm/README 'no code'
file openjdk-17-source/usr/lib/jvm/other.py 'x = 1'
file archived/java/util/Deep.java 'class Deep {}'
mkdir -p "$scratch/packages/openjdk-17-source/usr/src"
tar -C "$scratch/packages/archived" -cJf "$scratch/packages/openjdk-17-source/usr/src/jdk.tar.xz" .

# A package that cannot be fetched leaves those before it whole.
! run java > "$scratch/log" 2>&1 || fail "a package that is not there was not missed"
grep -q "openjfx-source could not be fetched" "$scratch/log" || fail "it is not named: $(cat "$scratch/log")"
corpus=$scratch/corpus
[[ $(find "$corpus/java/train" -name '*.java' | wc -l) == 2 ]] || fail "not the two files of the language: $(find "$corpus")"
[[ -z $(find "$corpus" -name README -o -name '*.py') ]] || fail "files of no or another language"
grep -q "^class Deep" "$(find "$corpus/java/train/openjdk-17-source" -name Deep.java)" || fail "not out of the archive"
[[ ! -e $corpus/java/held-out ]] || fail "a part of a package that could not be fetched"

file openjfx-source/usr/src/fx/Held.java 'class Held {}'
run java > "$scratch/log" 2>&1 || fail "the second call: $(cat "$scratch/log")"
[[ -n $(find "$corpus/java/held-out/openjfx-source" -name Held.java) ]] || fail "no held-out package"
[[ $(sort "$scratch/calls" | uniq -c | awk '$1 > 1 { print $2 }') == openjfx-source ]] || fail "fetched again: $(cat "$scratch/calls")"
for row in $'java\ttrain\topenjdk-17-source\t1.0-1\t2\t29' $'java\theld-out\topenjfx-source\t1.0-1\t1\t14'; do
  grep -qxF "$row" "$corpus/manifest.tsv" || fail "the manifest lacks $row: $(cat "$corpus/manifest.tsv")"
done

# One that a kill left without its line is made anew.
sed -i '/openjfx/d' "$corpus/manifest.tsv"
touch "$corpus/java/held-out/openjfx-source/half"
run java > /dev/null 2>&1
[[ ! -e $corpus/java/held-out/openjfx-source/half ]] || fail "a half-made package stayed"

! run cobol > "$scratch/log" 2>&1 || fail "a language that is not known"
grep -q "'cobol' is none of" "$scratch/log" || fail "it is not named"
file openjfx-source/usr/src/fx/none 'nothing'
rm "$scratch/packages/openjfx-source/usr/src/fx/Held.java"
rm -r "$corpus/java/held-out"
! run java > "$scratch/log" 2>&1 || fail "a package without code"
grep -q "openjfx-source 1.0-1 has no files of java" "$scratch/log" || fail "it is not named: $(cat "$scratch/log")"
