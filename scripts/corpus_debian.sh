#!/usr/bin/env bash
# A corpus of real code in eight languages from Debian's packages, about 1.3 GB: for each language a folder
# for training and one that is held out, split by package.
#   scripts/corpus_debian.sh OUTPUT [LANGUAGE ...]
# Writes OUTPUT/LANGUAGE/train/PACKAGE/..., OUTPUT/LANGUAGE/held-out/PACKAGE/... and OUTPUT/manifest.tsv
# (language, part, package, version, files, bytes). Needs apt-get, dpkg-deb, tar, xz and unzip, and a package
# list that `apt-get update` has fetched; nothing is installed. What was made for a language is not made
# again. Files keep their licences: /usr/share/doc/PACKAGE/copyright of each package.
set -euo pipefail
export LC_ALL=C # numbers with points, for printf and awk

fail() {
  printf 'corpus: error: %s\n' "$*" >&2
  exit 1
}

# Files of these suffixes are of the language.
declare -A suffixes=(
  [python]="py"
  [java]="java"
  [go]="go"
  [javascript]="js mjs jsx cjs ts tsx"
  [ruby]="rb"
  [php]="php"
  [c]="c h"
  [cpp]="cc cpp cxx hh hpp hxx ipp inl tcc h"
)

# Language, part, package.
packages="
python train libpython3.11-minimal
python train libpython3.11-stdlib
python train python3-django
python train python3-sympy
python train python3-numpy
python train python3-scipy
python train python3-pandas
python train python3-sklearn
python train python3-astropy
python train python3-networkx
python train python3-nltk
python train python3-docutils
python train python3-sphinx
python train python3-twisted
python train python3-breezy
python train python3-torch
python train python3-statsmodels
python train ansible-core
python held-out python3-sqlalchemy
python held-out python3-matplotlib
java train openjdk-17-source
java held-out openjfx-source
go train golang-1.19-src
go train golang-github-docker-docker-dev
go train golang-google-grpc-dev
go train golang-google-cloud-dev
go train golang-golang-x-net-dev
go train golang-golang-x-sys-dev
go train golang-golang-x-crypto-dev
go train golang-github-containers-image-dev
go train golang-github-hashicorp-memberlist-dev
go train golang-github-spf13-cobra-dev
go train golang-gopkg-yaml.v3-dev
go train golang-etcd-server-dev
go train golang-k8s-sigs-structured-merge-diff-dev
go held-out golang-golang-x-tools-dev
go held-out golang-github-gin-gonic-gin-dev
javascript train node-typescript
javascript train node-babel7
javascript train libjs-three
javascript train node-lodash
javascript train node-core-js
javascript train node-vue
javascript train node-jquery
javascript train node-highlight.js
javascript train webpack
javascript train npm
javascript train node-acorn
javascript train node-express
javascript train node-postcss
javascript train node-terser
javascript held-out eslint
javascript held-out node-undici
ruby train libruby3.1
ruby train ruby-activerecord
ruby train ruby-actionpack
ruby train ruby-activesupport
ruby train ruby-actionview
ruby train ruby-fog-aws
ruby train ruby-aws-sdk-core
ruby train ruby-nokogiri
ruby train rubocop
ruby train vagrant
ruby train ruby-asciidoctor
ruby train yard
ruby train puppet-agent
ruby train ruby-sequel
ruby train ruby-mechanize
ruby train ruby-rspec-core
ruby held-out redmine
ruby held-out jekyll
php train mediawiki
php train phpmyadmin
php train dokuwiki
php train php-laravel-framework
php train php-phpseclib
php train php-doctrine-orm
php train php-doctrine-dbal
php train php-symfony-http-foundation
php train php-symfony-console
php train php-symfony-dependency-injection
php train php-twig
php train php-tcpdf
php train roundcube-core
php train phpunit
php held-out wordpress
c train glibc-source
c train binutils-source
c train gdb-source
c train openvswitch-source
c train bluez-source
c held-out xorg-server-source
cpp train gcc-12-source
cpp train libboost1.74-dev
cpp train libcgal-dev
cpp train libdlib-dev
cpp train libvtk9-dev
cpp train libopencv-core-dev
cpp train libpcl-dev
cpp train libarmadillo-dev
cpp train libtbb-dev
cpp train librange-v3-dev
cpp train juce-modules-source
cpp held-out catch2
cpp held-out rapidjson-dev
cpp held-out nlohmann-json3-dev
cpp held-out libcereal-dev
"

output=${1:-}
if [[ $output == -h || $output == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
[[ -n $output && $output != -* ]] || fail "usage: scripts/corpus_debian.sh OUTPUT [LANGUAGE ...]"
shift
wanted=("$@")
for language in "${wanted[@]}"; do
  [[ -n ${suffixes[$language]:-} ]] || fail "'$language' is none of: ${!suffixes[*]}"
done
((${#wanted[@]} > 0)) || wanted=("${!suffixes[@]}")
for tool in apt-get dpkg-deb tar xz unzip; do
  command -v "$tool" > /dev/null || fail "$tool is missing; install it with your package manager"
done

mkdir -p "$output"
output=$(realpath "$output")
manifest=$output/manifest.tsv
[[ -e $manifest ]] || printf 'language\tpart\tpackage\tversion\tfiles\tbytes\n' > "$manifest"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Unpacks the archives in which packages of sources bring them, each beside itself; not those of test data.
unpack_archives() {
  local archive
  find "$1" -type f \( -name src.zip -o -path "$1/usr/src/*" \( -name '*.tar' -o -name '*.tar.xz' -o -name '*.tar.gz' \
    -o -name '*.tar.bz2' \) \) -print0 > "$scratch/archives"
  while IFS= read -r -d '' archive; do
    mkdir "$archive.files"
    case "$archive" in
      *.zip) unzip -q -o "$archive" -d "$archive.files" < /dev/null ;;
      *) tar -xf "$archive" -C "$archive.files" ;;
    esac
    rm "$archive"
  done < "$scratch/archives"
}

# Copies the files of a language from a folder into another, at the same places.
copy_files() {
  local from=$1 to=$2 suffix names=()
  for suffix in ${suffixes[$3]}; do names+=(-o -name "*.$suffix"); done
  mkdir -p "$to"
  (cd "$from" && find . -type f \( "${names[@]:1}" \) ! -name '*.min.js' -size -1000k -print0 |
    tar --null -cf - --files-from=-) | tar -xf - -C "$to"
}

take() {
  local language=$1 part=$2 package=$3 version files bytes
  local to=$output/$language/$part/$package row
  row=$(printf '%s\t%s\t%s\t' "$language" "$part" "$package")
  # Whole, and in the manifest: a script that was killed may have left one of both.
  if [[ -d $to ]] && grep -qF "$row" "$manifest"; then return; fi
  rm -rf "$scratch/package" "$to" "$output/.partial"
  mkdir -p "$scratch/package/files"
  (cd "$scratch/package" && apt-get -qq -o APT::Sandbox::User=root download "$package") ||
    fail "$package could not be fetched; run 'apt-get update' as root, and see that this is Debian 12"
  version=$(dpkg-deb -f "$scratch/package/"*.deb Version)
  dpkg-deb -x "$scratch/package/"*.deb "$scratch/package/files"
  unpack_archives "$scratch/package/files"
  copy_files "$scratch/package/files" "$output/.partial" "$language"
  files=$(find "$output/.partial" -type f | wc -l)
  ((files > 0)) || fail "$package $version has no files of $language; take it out of the list in this script"
  bytes=$(find "$output/.partial" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
  mkdir -p "${to%/*}"
  mv "$output/.partial" "$to"
  { grep -vF "$row" "$manifest" || true; } > "$output/.manifest"
  printf '%s%s\t%d\t%d\n' "$row" "$version" "$files" "$bytes" >> "$output/.manifest"
  mv "$output/.manifest" "$manifest"
  printf '%-11s %-9s %-44s %6d files %8.1f MB\n' "$language" "$part" "$package" "$files" \
    "$(awk "BEGIN { print $bytes / 1e6 }")"
}

while read -r language part package; do
  [[ -n $language ]] || continue
  for one in "${wanted[@]}"; do
    if [[ $one == "$language" ]]; then take "$language" "$part" "$package"; fi
  done
done <<< "$packages"

printf '\nlanguage    part          files         MB\n'
awk -F'\t' 'NR > 1 { files[$1 "\t" $2] += $5; bytes[$1 "\t" $2] += $6 }
  END { for (key in files) { split(key, of, "\t"); printf "%-11s %-9s %9d %10.1f\n", of[1], of[2], files[key], bytes[key] / 1e6 } }' \
  "$manifest" | sort
