#!/usr/bin/env bash
# scripts/corpus_english.sh with packages that are made here: what is prose gets through, in each format, joined to
# documents and once only; nothing is made again; what is wrong is refused.
#   corpus_english_test.sh PROJECT SCRATCH
set -euo pipefail
project=$1 scratch=$2
for tool in gzip bzip2 iconv awk od; do
  command -v "$tool" > /dev/null || { printf 'corpus_english_test: skipped: no %s\n' "$tool" && exit 77; }
done
rm -rf "$scratch"
mkdir -p "$scratch"/{bin,packages,texts}
fail() {
  printf 'corpus_english_test: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=debian_packages.sh disable=SC1091
source "$project/tests/scripts/debian_packages.sh"
file() {
  mkdir -p "$(dirname "$scratch/packages/$1")"
  cat > "$scratch/packages/$1"
}

file anarchism/usr/html/a.html << 'PAGE'
<html><head><title>The title of a page is no prose.</title></head><body>
<h1>A heading</h1>
<p>The first paragraph
is <b>wrapped</b> &amp; has <a href="x">a
link</a>, and it&#8217;s whole.</p>
<!-- <p>What stands in a comment is no text at all.</p> -->
<pre>This is code, and it is not taken at all.</pre>
<table><tr><td>1</td><td>2.5</td></tr></table>
<ul><li>Too short.</li><li>The item of a list is a paragraph too.</li></ul>
<p>int main() { return x[0] = y_1 + (z << 2) | w; } // and so on.</p></body></html>
PAGE
file anarchism/usr/html/b.html << 'PAGE'
<p>The item of a list is a paragraph too.</p><p>A second page is another document.</p>
PAGE
file manpages/usr/man/man7/a.7 << 'PAGE'
.TH A 7
.SH NAME
a \- nothing
.SH DESCRIPTION
The \fIfirst\fP line of a page,
.BR open (2)
and the last one.
.nf
This is an example which is not taken here.
.fi
PAGE
gzip "$scratch/packages/manpages/usr/man/man7/a.7"
file perl-doc/usr/a.pod << 'PAGE'
=head1 The heading of a page is no prose.

The text of B<bold> and L<linked|perl/words> C<code> is kept.

    my $code = "This is code, and it is not taken.";
PAGE
file fortunes/usr/games/fortunes/a << 'PAGE'
A saying that is wrapped
ends with a sign.
%
		-- Somebody
%
Another saying ends with one too!
PAGE
file dict-gcide/usr/gcide.dict << 'PAGE'
Abandon
   Abandon \A*ban"don\, v. t. [imp. & p. p. {Abandoned}.]

   1. To cast or drive out; to banish; to {expel}; to reject.
      [Obs.]
PAGE
gzip -S .dz "$scratch/packages/dict-gcide/usr/gcide.dict"
file wordnet-base/usr/data.noun << 'PAGE'
  1 This software and database is being provided to you.
00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 | that which is perceived or known; "it was an entity"
PAGE
file endless-sky-data/usr/data/a.txt << 'PAGE'
mission "A name"
	conversation
		`The captain says, "Come in," and you follow her.`
PAGE
file wesnoth-1.16-ttb/usr/a.cfg << 'PAGE'
[message]
    speaker="narrator"
    message= _ "The orcs came over the hill,
and <i>nobody</i> saw them. He wrote \"no\"."
PAGE
# A block of a SWORD module is a stream of zlib, whose checksum is not read, and has a row of place, size, size as text.
mkdir -p "$scratch/packages/sword-comm-mhcc/usr"
block=$scratch/packages/sword-comm-mhcc/usr/ot.bzz
printf '<hi>The first</hi> words of a commentary are these.<lb/>' | gzip -nc > "$scratch/block.gz"
size=$(($(stat -c %s "$scratch/block.gz") - 12))
{ printf 'xxx\170\234' && tail -c +11 "$scratch/block.gz" | head -c "$((size - 6))" && printf '\0\0\0\0'; } > "$block"
# shellcheck disable=SC2059 # the escapes are the format
printf "\\3\\0\\0\\0\\x$(printf %x "$size")\\0\\0\\0\\0\\0\\0\\0" > "${block%z}s"
printf 'short\nThe text of a user\nshort\nThe item of a list is a paragraph too.\n' > "$scratch/texts/own text.txt"
file fortunes-min/usr/games/fortunes/a <<< "no prose"

corpus() { PATH="$scratch/bin:$PATH" "$project/scripts/corpus_english.sh" "$scratch/out" "$@"; }
packages=(anarchism manpages perl-doc fortunes dict-gcide wordnet-base endless-sky-data wesnoth-1.16-ttb sword-comm-mhcc)
corpus --only "${packages[@]}" --add "$scratch/texts"
holds() {
  diff -u "$scratch/out/$1.txt" - || fail "$1 has other documents"
}
holds train/anarchism << 'TEXT'
The first paragraph is wrapped & has a link, and it's whole. The item of a list is a paragraph too.
A second page is another document.
TEXT
holds train/manpages <<< 'The first line of a page, open(2) and the last one.'
holds train/perl-doc <<< 'The text of bold and linked code is kept.'
holds train/fortunes <<< 'A saying that is wrapped ends with a sign. Another saying ends with one too!'
holds train/dict-gcide <<< 'To cast or drive out; to banish; to expel; to reject.'
holds train/wordnet-base <<< 'That which is perceived or known. "it was an entity"'
holds train/endless-sky-data <<< 'The captain says, "Come in," and you follow her.'
holds train/sword-comm-mhcc <<< 'The first words of a commentary are these.'
holds train/added-1-own_text << 'TEXT'
short
The text of a user
TEXT
holds validation/wesnoth-1.16-ttb <<< 'The orcs came over the hill, and nobody saw them. He wrote "no".'
grep -qP '^validation\twesnoth-1.16-ttb\t1.0-1\t1\t65$' "$scratch/out/manifest.tsv" || fail "the manifest lacks a row"
(($(wc -l < "$scratch/out/manifest.tsv") == ${#packages[@]} + 2)) || fail "the manifest has other rows"

# Again: nothing is fetched, and the files are the same.
cp -r "$scratch/out" "$scratch/before"
corpus --only "${packages[@]}" --add "$scratch/texts" > /dev/null
diff -r "$scratch/before" "$scratch/out" || fail "a second run writes other files"
(($(wc -l < "$scratch/calls") == ${#packages[@]})) || fail "a second run fetches packages"

refused() {
  local said
  if said=$(corpus "${@:2}" 2>&1); then fail "'${*:2}' is taken"; fi
  grep -q "^corpus: error: .*$1" <<< "$said" || fail "'${*:2}' is refused with: $said"
}
refused "fortunes-min 1.0-1 has no prose" --only fortunes-min
refused "'nothing' is none of the packages" --only nothing
refused "'$scratch/absent', which is to be added, is not there" --add "$scratch/absent"
refused "'--other' is no option" --other
refused "nothing to write" --only ''
