#!/usr/bin/env bash
# tokenizers 0.23.3: an added token with rstrip takes the white space behind it, and another added token that begins
# within that white space is found all the same. Both have those characters: offsets overlap, and texts cut by offsets
# are longer than the text. Expected by most: tokens never share characters. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install tokenizers==0.23.3
"$work/venv/bin/python" - <<'PYTHON'
import tokenizers
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.add_tokens([AddedToken("<e>", rstrip=True, normalized=False), AddedToken("  b", normalized=False)])
text = "a <e>  b a"
found = tokenizer.encode(text)
print("tokenizers", tokenizers.__version__)
for token, (begin, end) in zip(found.tokens, found.offsets):
    print(f"{token!r:8} characters {begin} to {end}: {text[begin:end]!r}")
offsets = found.offsets
assert offsets[1] == (2, 7) and offsets[2] == (5, 8), offsets
assert offsets[2][0] < offsets[1][1]
PYTHON
