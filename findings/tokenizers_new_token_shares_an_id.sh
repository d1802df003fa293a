#!/usr/bin/env bash
# tokenizers 0.23.3: a token that is added to a vocabulary whose ids have a hole gets an id that a piece has already.
# The next id is the number of pieces, not the largest id plus one, so both become the same row of an embedding, and
# decoding gives the added token for both. Vocabularies with a doubled line have such holes. Nothing is said.
# Expected by most: a new id. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install tokenizers==0.23.3
"$work/venv/bin/python" - <<'PYTHON'
import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers

ids = {"[UNK]": 0, "a": 1, "b": 3, "c": 4}  # four pieces, and no piece has the id 2
tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.add_tokens(["new"])
print("tokenizers", tokenizers.__version__)
print("id of 'c':", tokenizer.token_to_id("c"), " id of 'new':", tokenizer.token_to_id("new"))
print("'a c' is", tokenizer.encode("a c").ids, " 'a new' is", tokenizer.encode("a new").ids)
print("decoded, 'a c' is", repr(tokenizer.decode(tokenizer.encode("a c").ids)))
assert tokenizer.encode("a c").ids == tokenizer.encode("a new").ids == [1, 4]
assert tokenizer.decode([1, 4]) == "a new"
PYTHON
