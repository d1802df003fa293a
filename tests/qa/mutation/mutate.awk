# Copies CUDA sources with mistakes that can be switched on (mutation.h):
#   barriers that can be left out:   if (kept(N)) __syncthreads();
#   bounds that can be moved by one: i < shift(N) + count, min(shift(N) + end, count)
# awk -v out=DIRECTORY -v list=FILE -f mutate.awk SOURCE...
# A loop over the tiles of a constant loses or gains a whole one. Relations are found by the spaces that the
# formatter puts around them and not into template arguments. Those that the compiler decides are left alone.
# The list has for each place: number, kind, place, line.

FNR == 1 {
  if (to != "") close(to)
  name = FILENAME
  room = FILENAME
  sub(/.*kernels\/cuda\//, "", room)
  sub(/.*\//, "", name)
  to = out "/" room
  printf "#include \"tests/qa/mutation/mutation.h\"\n#line 1 \"%s\"\n", FILENAME > to
}

function note(kind, text) {
  sub(/^ +/, "", text)
  printf "%d\t%s\t%s:%d\t%s\n", places, kind, name, FNR, text > list
}

{
  code = $0
  comment = ""
  if ((at = index(code, "//")) > 0) {
    comment = substr(code, at)
    code = substr(code, 1, at - 1)
  }
  # The compiler decides a constant's definition and a constant function up to their ends.
  ends = code
  sub(/ +$/, "", ends)
  decided = skipped > 0
  if (!skipped && code ~ /constexpr/ && code !~ /if constexpr/) skipped = 1
  if (skipped == 1 && ends ~ /[{]$/) skipped = 2
  if ((skipped == 1 && ends ~ /;$/) || (skipped == 2 && ends ~ /^}/)) skipped = 0
  if (!decided && code !~ /^ *#|constexpr|static_assert|COMERA_CHECK|template|alignas|__launch_bounds__|conditional_t/) {
    while (match(code, /__sync(threads|warp)\(\);/) && substr(code, RSTART - 1, 1) != "\001") {
      note("barrier", $0)
      code = substr(code, 1, RSTART - 1) "if (::comera::mutation::kept(" places++ ")) \001" substr(code, RSTART)
    }
    sub(/\001/, "", code)
    tile = ""
    if (match(code, /for \(int [a-z]+ = 0; .* \+= [A-Za-z:]+\)/)) {
      tile = substr(code, RSTART, RLENGTH - 1)
      sub(/.* \+= /, "", tile)
    }
    rest = code
    code = ""
    while (match(rest, / [<>]=? /)) {
      note("bound", $0)
      code = code substr(rest, 1, RSTART + RLENGTH - 1) "::comera::mutation::shift(" places++ ") "
      rest = substr(rest, RSTART + RLENGTH)
      code = code (tile != "" && rest ~ /^(D|keys|queries|columns|deep|tiles)[; ]/ ? "* " tile " + " : "+ ")
    }
    rest = code rest
    code = ""
    while (match(rest, /[^A-Za-z_:](min|max)\(/)) {
      note("bound", $0)
      code = code substr(rest, 1, RSTART + RLENGTH - 1) "::comera::mutation::shift(" places++ ") + "
      rest = substr(rest, RSTART + RLENGTH)
    }
    code = code rest
  }
  print code comment > to
}
