#!/usr/bin/env bash
# A corpus of English prose from Debian's packages, about 130 MB: books, manuals, dictionaries, commentaries,
# sayings and the stories of games, with some packages held out.
#   scripts/corpus_english.sh OUTPUT [--add PATH ...] [--only PACKAGE ...]
# Writes OUTPUT/train/PACKAGE.txt, OUTPUT/validation/PACKAGE.txt and OUTPUT/manifest.tsv (part, package, version,
# documents, bytes). Each line is a document: paragraphs of one page that follow each other, up to about 2,000 bytes.
# What is no prose (tables, code, titles) is left out, and so is a paragraph that was there before.
# --add takes further text into train: a file, or the *.txt of a folder; each of its lines is a document as it is.
# --only takes no other packages than those named (none with --only '').
# Needs apt-get, dpkg-deb, gzip, bzip2, iconv and awk, and a package list that `apt-get update` has fetched; nothing
# is installed. OUTPUT/paragraphs keeps what was made of a package, which is not made again. The texts keep their
# licences: /usr/share/doc/PACKAGE/copyright of each package.
# shellcheck disable=SC2016 # the programs of awk are in single quotes
set -euo pipefail
export LC_ALL=C # numbers with points and bytes as letters, for awk

fail() {
  printf 'corpus: error: %s\n' "$*" >&2
  exit 1
}

# Part, package, format, which of its files (without .gz, .bz2 or .dz).
packages="
train sword-comm-tdavid sword *.[bc]zz
train sword-comm-mhcc sword *.[bc]zz
train anarchism markup */html/*.html
train dict-gcide dictionary */gcide.dict
train dict-foldoc dictionary */foldoc.dict
train dict-jargon dictionary */jargon.dict
train dict-devil dictionary */devil.dict
train wordnet-base glosses */data.*
train fortunes text */games/fortunes/*
train fortunes-min text */games/fortunes/*
train display-dhammapada text */dhammapada-[ae]*.txt
train cataclysm-dda-data quoted */cataclysm-dda/json/*.json
train endless-sky-data lines */data/*.txt
train wesnoth-1.16-data quoted *.cfg
train wesnoth-1.16-httt quoted *.cfg
train wesnoth-1.16-utbs quoted *.cfg
train wesnoth-1.16-trow quoted *.cfg
train wesnoth-1.16-did quoted *.cfg
train wesnoth-1.16-dm quoted *.cfg
train wesnoth-1.16-dw quoted *.cfg
train wesnoth-1.16-ei quoted *.cfg
train wesnoth-1.16-l quoted *.cfg
train wesnoth-1.16-low quoted *.cfg
train wesnoth-1.16-nr quoted *.cfg
train wesnoth-1.16-sof quoted *.cfg
train wesnoth-1.16-sota quoted *.cfg
train wesnoth-1.16-sotbe quoted *.cfg
train stellarium-data markup */skycultures/*/description.en.utf8
train debian-handbook markup */html/en-US/*.html
train debian-reference-en markup */ch*.en.html
train developers-reference markup */developers-reference.html
train debian-policy markup */policy.html/*.html
train debian-kernel-handbook markup */kernel-handbook.html/*.html
train maint-guide markup */html/*.en.html
train harden-doc markup */html/en-US/*.html
train installation-guide-amd64 markup */installation-guide-amd64/en/*.html
train freedombox-doc-en markup */freedombox-manual.part.html
train gnome-user-docs markup */help/C/*.page
train gnucash-docs markup */help/C/*
train gimp-help-en markup */help/en/*.html
train libreoffice-help-en-us markup */en-US/text/*.html
train gnumeric-doc markup */help/C/gnumeric/*.xml
train kstars-data markup */HTML/en/*.docbook
train manpages man */man/man?/*
train manpages-dev man */man/man?/*
train linux-doc-6.1 markup */html/*.html
train python3.11-doc markup */html/*.html
train python-django-doc markup */html/*.html
train python-sklearn-doc markup */html/*.html
train postgresql-doc-15 markup */html/*.html
train perl-doc pod *.pod
train git-doc markup *.html
train apache2-doc markup */manual/en/*.html
train sqlite3-doc markup *.html
train r-doc-html markup *.html
train shorewall-doc markup *.html
train erlang-doc markup *.html
train racket-doc markup *.html
train renpy-doc markup *.html
train lilypond-doc-html markup *.html
train octave-doc markup */octave.html/[A-W]*.html
train grass-doc markup *.html
train povray-doc markup *.html
train wireshark-doc markup */wsug_html_chunked/*.html
train vim-runtime text */doc/*.txt
train neutron-doc markup *.html
train nova-doc markup *.html
train cinder-doc markup *.html
train rust-doc markup */book/*.html
train ada-reference-manual-2012 markup *.html
train c++-annotations-html markup *.html
train emacs-common text */emacs/*/etc/NEWS*
validation wesnoth-1.16-thot quoted *.cfg
validation wesnoth-1.16-tsg quoted *.cfg
validation wesnoth-1.16-ttb quoted *.cfg
validation crawl-common text */dat/*/*.txt
validation fortunes-mario text */games/fortunes/*
validation debian-faq markup */FAQ/*.en.html
validation png-definitive-guide markup */html/*.html
validation bash-doc markup *.html
validation twisted-doc markup *.html
"

output=${1:-}
[[ -n $output && $output != -* ]] ||
  fail "usage: scripts/corpus_english.sh OUTPUT [--add PATH ...] [--only PACKAGE ...]"
shift
added=() only=() option=
for argument in "$@"; do
  case "$argument" in
    --add | --only) option=$argument && continue ;;
  esac
  case "$option" in
    --add) [[ -e $argument ]] || fail "'$argument', which is to be added, is not there" ;;&
    --add) added+=("$(realpath "$argument")") ;;
    --only) only+=("$argument") ;;
    *) fail "'$argument' is no option of this script: --add, --only" ;;
  esac
done
for one in "${only[@]}"; do
  [[ -z $one ]] || awk -v one="$one" '$2 == one { found = 1 } END { exit !found }' <<< "$packages" ||
    fail "'$one' is none of the packages that the list in this script has"
done
for tool in apt-get dpkg-deb gzip bzip2 iconv awk; do
  command -v "$tool" > /dev/null || fail "$tool is missing; install it with your package manager"
done

# Both folders are made anew each time.
if [[ ! -e $output/manifest.tsv && ! -e $output/paragraphs && (-e $output/train || -e $output/validation) ]]; then
  fail "$output has a train or a validation that this script did not make; choose another OUTPUT"
fi
mkdir -p "$output/paragraphs"
output=$(realpath "$output")
for one in "${added[@]}"; do
  [[ $one/ != "$output"/* ]] || fail "'$one' is within $output, which is made anew; keep it elsewhere"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Each format's program of awk ends a paragraph with put(), which prints it as one line if it is prose. An empty line
# stands between pages.
prose='
  # Collects text; a paragraph ends with put().
  function add(more) { text = text " " more }
  function put(    letters, rest, odd) {
    rest = text
    text = ""
    if (dictionary) {
      gsub(/\[[^]]*\]|\\[^\\]*\\|[{}]/, "", rest)
      sub(/^ *([0-9]+\.|\([a-z]\)) */, "", rest)
    }
    gsub(/\302\240|\302\255|\302\266|\342\200\213/, " ", rest) # special spaces and hyphens, the sign of a paragraph
    gsub(/\342\200[\230\231]/, "'\''", rest)
    gsub(/\342\200[\234\235]/, "\"", rest)
    gsub(/\342\200[\220-\225]/, "-", rest)
    gsub(/\342\200\246/, "...", rest)
    gsub(/[ \t\r\n\f\v]+/, " ", rest)
    gsub(/^ | $/, "", rest)
    gsub(/ [.,;:]( |$)/, "&\001", rest)
    gsub(/ \001/, "\001", rest) # the space that a tag left before a sign
    while (match(rest, / [.,;:]\001/))
      rest = substr(rest, 1, RSTART - 1) substr(rest, RSTART + 1, 1) " " substr(rest, RSTART + 3)
    gsub(/\001/, "", rest)
    gsub(/ $/, "", rest)
    if (split(rest, words, " ") < 5 || rest !~ /^["(A-Z0-9'\'']/) return
    if (!loose && rest !~ /[.!?]["'\'')]*$/) return
    letters = rest
    odd = rest
    if (gsub(/[A-Za-z ]/, "", letters) < 0.8 * length(rest) || gsub(/[_{}<>|\\=\/@#$~^*+]/, "", odd) > 0.02 * length(rest)) return
    print rest
  }
  FNR == 1 { put(); print "" }
  END { put() }
'
declare -A reader

# HTML, DocBook, Mallard, ThML: what is no tag within a line ends a paragraph.
reader[markup]='
  BEGIN {
    RS = "<"
    count = split("a abbr acronym app application b big br citation cite cmd code command em emphasis file filename firstterm " \
      "font foreignphrase function gui guibutton guiicon guilabel guimenu guimenuitem guiseq guisubmenu hi i img input ins " \
      "kbd key keycap keycombo keyseq link literal mark menuchoice note-reference option output package parameter phrase " \
      "productname q quote replaceable samp scripref small span strong strike sub sup sys systemitem term tt type u ulink " \
      "userinput var varname w wbr wordasword xref reference divinename transchange", names, " ")
    for (i = 1; i <= count; ++i) inline[names[i]] = 1
    count = split("pre script style head nav svg math screen programlisting literallayout synopsis select textarea footer", names, " ")
    for (i = 1; i <= count; ++i) ignored[names[i]] = 1
  }
  FNR == 1 { inside = ""; next }
  inside == "--" {
    if (!(end = index($0, "-->"))) next
    inside = ""
    plain(substr($0, end + 3))
    next
  }
  !inside && /^!--/ && !/-->/ { inside = "--"; next }
  {
    end = index($0, ">")
    name = tolower($0)
    sub(/[^a-z0-9\/:-].*/, "", name)
    if (inside) {
      if (name != "/" inside) next
      inside = ""
    } else if (name in ignored && substr($0, end - 1, 1) != "/") {
      inside = name
    }
    sub(/^\//, "", name)
    sub(/\/$/, "", name)
    if (!(name in inline)) put()
    if (name == "br") add(" ")
    if (!inside) plain(substr($0, end + 1))
  }
  function plain(more) {
    if (index(more, "&")) {
      gsub(/&(amp|#38);/, "\001", more)
      gsub(/&(nbsp|#160|#xa0);/, " ", more)
      gsub(/&(quot|ldquo|rdquo|#34|#822[01]|#x201[cd]);/, "\"", more)
      gsub(/&(apos|lsquo|rsquo|#39|#x27|#821[67]|#x201[89]);/, "'\''", more)
      gsub(/&(mdash|ndash|#821[12]);/, "-", more)
      gsub(/&(hellip|#8230);/, "...", more)
      gsub(/&(lt|#60);/, "<", more)
      gsub(/&(gt|#62);/, ">", more)
      gsub(/&[A-Za-z0-9#]+;/, " ", more)
      gsub(/\001/, "\\&", more)
    }
    text = text more
  }
'
# Manual pages.
reader[man]='
  function plain(line) {
    gsub(/\\f(\[[^]]*\]|\(..|.)|\\s[-+]?[0-9]|\\[&%|^:\/,]|\\c/, "", line)
    gsub(/\\\(em|\\\[em\]/, " - ", line)
    gsub(/\\\(aq|\\\(cq|\\\[aq\]/, "'\''", line)
    gsub(/\\\(dq|\\\([lr]q|\\\[[lr]q\]/, "\"", line)
    gsub(/\\-/, "-", line)
    gsub(/\\e/, "\\", line)
    gsub(/\\(\(..|\[[^]]*\])/, " ", line)
    gsub(/\\[ ~0]/, " ", line)
    return line
  }
  FNR == 1 { quiet = 0 }
  /^[.'\''] *\\"/ { next }
  /^\.(nf|EX|TS)/ { put(); quiet = 1; next }
  /^\.(fi|EE|TE)/ { quiet = 0; next }
  quiet { next }
  /^\.(B|I|BR|BI|IR|IB|RB|RI|SM|SB|UR|MT) / {
    alternate = $1 ~ /^\.(BR|BI|IR|IB|RB|RI)$/
    sub(/^\.[A-Z]+ +/, "")
    if (alternate) gsub(/ /, "")
    gsub(/"/, "")
    add(plain($0))
    next
  }
  /^\.(UE|ME)/ { next }
  /^[.'\'']/ || /^ *$/ { put(); next }
  { add(plain($0)) }
'
# Documentation of Perl.
reader[pod]='
  /^[ \t]*$/ { put(); next }
  /^[ \t=]/ { put(); next }
  {
    gsub(/X<[^<>]*>/, "")
    while (match($0, /[BCFIS]<[^<>]*>/))
      $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + 2, RLENGTH - 3) substr($0, RSTART + RLENGTH)
    gsub(/\|[^<>|]*>/, ">") # the target of a link
    gsub(/[LXZ]<|E<gt>|E<lt>|<<+|>+/, "")
    add($0)
  }
'
# Plain text: a line without a letter ends a paragraph.
reader[text]='
  !/[A-Za-z]/ { put(); next }
  {
    gsub(/``|[*|]/, "")
    add($0)
  }
'
# Dictionaries for dictd: without what stands in brackets, and without pronunciations.
reader[dictionary]='
  BEGIN { dictionary = 1 }
  /^[ \t]*$/ || /^[^ ]/ { put(); next }
  { add($0) }
'
# The definitions of WordNet.
reader[glosses]='
  BEGIN { loose = 1 }
  / \| / {
    sub(/.* \| +/, "")
    gsub(/\.?; "/, ". \"")
    sub(/ *$/, "")
    $0 = toupper(substr($0, 1, 1)) substr($0, 2)
    if ($0 !~ /[.!?"]$/) $0 = $0 "."
    add($0)
    put()
  }
'
# Strings in quotation marks, of whatever language.
reader[quoted]='
  BEGIN { RS = "\"" }
  {
    gsub(/<[^>]*>/, "")
    gsub(/\\n/, " ")
    if (sub(/\\$/, "")) { text = text $0 "\""; next }
    text = text $0
    put()
  }
'
# The data of Endless Sky: a string is a line, and its mark is ` if it has quotation marks.
reader[lines]='
  match($0, /`[^`]*`/) || match($0, /".*"/) {
    add(substr($0, RSTART + 1, RLENGTH - 2))
    put()
  }
'
reader[sword]=${reader[markup]}

# Writes the texts of a SWORD module's blocks, of which a file has the places and sizes, in place of the blocks.
unpack_sword() {
  local blocks=$1 begin size
  od -An -v -tu4 -w12 "${blocks%z}s" | while read -r begin size _; do
    # The block is a stream of zlib; gzip reads it behind a header of its own and misses the end that it would write.
    { printf '\037\213\010\0\0\0\0\0\0\0' && tail -c "+$((begin + 3))" "$blocks" | head -c "$((size - 2))"; } |
      gzip -dcq 2> /dev/null || true
  done > "$scratch/text" # not under pipefail: head ends before tail
  mv "$scratch/text" "$blocks"
}

take() {
  local package=$1 format=$2 files=$3 version to=$output/paragraphs/$1 file
  if [[ -e $to ]]; then return; fi
  rm -rf "$scratch/package"
  mkdir -p "$scratch/package/files"
  (cd "$scratch/package" && apt-get -qq -o APT::Sandbox::User=root download "$package") ||
    fail "$package could not be fetched; run 'apt-get update' as root, and see that this is Debian 12"
  version=$(dpkg-deb -f "$scratch/package/"*.deb Version)
  dpkg-deb -x "$scratch/package/"*.deb "$scratch/package/files"
  find "$scratch/package/files" -type f -size -20000k \( -path "$files" -o -path "$files.gz" \
    -o -path "$files.bz2" -o -path "$files.dz" \) -print0 | sort -z > "$scratch/list"
  while IFS= read -r -d '' file; do
    case "$file" in
      *.gz | *.dz) gzip -dcq "$file" > "${file%.*}" && rm "$file" && file=${file%.*} ;;
      *.bz2) bzip2 -d "$file" && file=${file%.bz2} ;;
    esac
    if [[ $format == sword ]]; then unpack_sword "$file"; fi
    printf '%s\0' "$file"
  done < "$scratch/list" > "$scratch/plain"
  {
    printf '%s\n' "$version"
    xargs -0 -r awk "$prose${reader[$format]}" < "$scratch/plain" | { iconv -c -f UTF-8 -t UTF-8 || true; }
  } > "$scratch/paragraphs"
  grep -q '[.!?]' <(tail -n +2 "$scratch/paragraphs") ||
    fail "$package $version has no prose in $files; take it out of the list in this script"
  cp "$scratch/paragraphs" "$output/.partial"
  mv "$output/.partial" "$to"
}

# Joins the paragraphs of a page to documents, without those that were there before. Of each part's file: a line of
# the manifest.
join='
  function put() {
    if (document == "") return
    print document > to
    ++documents
    bytes += length(document) + 1
    document = ""
  }
  function finish() {
    put()
    if (to == "") return
    close(to)
    if (documents) printf "%s\t%s\t%s\t%d\t%d\n", part, name, version, documents, bytes > manifest
    documents = bytes = 0
  }
  FNR == 1 {
    finish()
    part = row_part[++files]
    name = row_name[files]
    to = output "/" part "/" name ".txt"
    if (row_kind[files] == "package") { version = $0; next }
    version = "-"
  }
  { sub(/\r$/, "") }
  /^[ \t]*$/ { put(); next }
  $0 in seen { next }
  {
    seen[$0] = 1
    document = document == "" ? $0 : document " " $0
    if (row_kind[files] == "added" || length(document) > 1500) put()
  }
  END { finish() }
'
wanted() {
  local one
  ((${#only[@]} > 0)) || return 0
  for one in "${only[@]}"; do [[ $one != "$1" ]] || return 0; done
  return 1
}

rows=() paths=() texts=0
while read -r part package format files; do
  if [[ -z $part ]] || ! wanted "$package"; then continue; fi
  take "$package" "$format" "$files"
  rows+=("$part $package package") paths+=("$output/paragraphs/$package")
done <<< "$packages"
for path in "${added[@]}"; do
  while IFS= read -r -d '' file; do
    [[ -s $file ]] || continue
    name=added-$((++texts))-${file##*/}
    name=${name// /_}
    rows+=("train ${name%.txt} added") paths+=("$file")
  done < <(if [[ -d $path ]]; then find "$path" -name '*.txt' -print0 | sort -z; else printf '%s\0' "$path"; fi)
done
((${#rows[@]} > 0)) || fail "nothing to write: no package and no text"

rm -rf "$output/train" "$output/validation"
mkdir -p "$output/train" "$output/validation"
printf '%s\n' "${rows[@]}" > "$scratch/rows"
printf 'part\tpackage\tversion\tdocuments\tbytes\n' > "$scratch/manifest"
: > "$scratch/entries"
awk -v output="$output" -v manifest="$scratch/entries" -v rows="$scratch/rows" "
  BEGIN {
    while ((getline line < rows) > 0) {
      split(line, of, \" \")
      row_part[++n] = of[1]
      row_name[n] = of[2]
      row_kind[n] = of[3]
    }
  }
  $join" "${paths[@]}"
cat "$scratch/manifest" "$scratch/entries" > "$output/manifest.tsv"
awk -F'\t' 'NR > 1 { printf "%-10s %-36s %8d documents %8.2f MB\n", $1, $2, $4, $5 / 1e6; documents[$1] += $4; bytes[$1] += $5 }
  END { for (part in bytes) printf "%-10s %-36s %8d documents %8.2f MB\n", part, "all", documents[part], bytes[part] / 1e6 }' \
  "$output/manifest.tsv"
