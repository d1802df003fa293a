#!/usr/bin/env python3
"""Makes some hundred tokenizers as people have them (settings x files x versions), and compares the ids that this
project gives texts with those of transformers' AutoTokenizer:

    python3 tests/oracle/check_tokenizers.py PRINT_IDS FOLDER [COUNT] [SEED] [TEXT ...]

PRINT_IDS is the program of that name, FOLDER a new one, TEXT files of real text. Every tokenizer must give the same
ids, or be refused by a sentence that names a file of its folder. Texts with the name of one of the five special
pieces are left out: here they are text like any other. Needs transformers and tokenizers (5.24 and 0.23.3 were used).
"""
import collections
import json
import logging
import os
import pathlib
import random
import subprocess
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """the of and to in is was for on that with he as his it by at from her ##s ##ed ##ing ##er ##ly ##tion ##al
un re dis pre well known hello world cafe caf\u00e9 caf ##\u00e9 ##e na\u00efve naive schon sch\u00f6n ##er ##es tag ein ##on ##en
\u4e2d \u56fd ##\u56fd \u4e2d\u56fd \u5e3d \u5b50 \u5e3d\u5b50 \u304b \u304c ##\u304b ##\u304c \ud55c ##\uad6d \ud55c\uad6d \u1112 ##\u1161 ##\u11ab ##\u1100 \u1100 stra\u00dfe strasse ##\u00dfe \u0441\u043b\u043e\u0432\u043e ##\u043e
\u0439 \u0438 \u03bb\u03cc\u03b3\u03bf\u03c2 \u03bb\u03bf\u03b3\u03bf\u03c2 ##\u03c3 ##\u03c2 i \u0131 ##\u0307 \u03a9 \ufb01 a b c d e f g h i j k l m n o p q r s t u v w x y z ##a ##b ##c ##d ##f ##g ##h ##i
##j ##k ##l ##m ##n ##o ##p ##q ##r ##t ##u ##v ##w ##x ##y ##z 0 1 2 3 ##0 ##1 ##2 . , ; : ! ? - _ ( ) [ ] { } < > / \\ | @ # $ % ^ & * + = ~ ` ' "
\u201c \u201d \u2013 \u20ac \u00bf \u3002 \u3001 ##, zed qqq""".split()
CAPITALS = "The Of Hello World Ein Tag Caf\u00e9 H\u00e9 A B C D E ##A ##B \u0414 \u00c9".split()
HOSTILE = ["", " ", "a zed b", "abzed", "zedzed zed_ zed-zed Zed ZED z\u00e9d", "a [E1] b [E2]", "x<ent>y <ent> z", "qqq  qqq\tqqq\n qqq",
           "Ein sch\u00f6ner Tag", "Que qu\u00e9 caf\u00e9 CAF\u00c9", "\u5e3d\u5b50 \u4e2d\u56fd\u4e2d", "\u304b\u304c\u304b\u3099", "\ud55c\uad6d \ud55c\uad6d\uc5b4", "\u0130stanbul \u0131\u0049\u0069",
           "STRASSE stra\u00dfe \u1e9e", "\u039b\u03cc\u03b3\u03bf\u03c2 \u03a3\u03a3\u03a3", "e\u0301\u0301 \u0301e \ufb01\uff21\u00aa", "a\u00a0b\u2003c\u3000d\u200be\ufefff", "ab\u0007c\u007fd\ufffde\u00adf",
           "\u0085x\u2028y\u2029z\u000bw\u000cv", "\U0002b820\U0002b91f\U0002b920\U00020000\u3400\uf900", "\U0001f642\U0001f1e9\U0001f1ea \U0001d400\U0001d7d8", "\u0e01\u0e33 \u0905\u093e\u0930 \u0627\u064e\u0644", "don't we'll 'tis 'S",
           "x" * 99, "x" * 100, "x" * 101, "a" * 250, "\u00e9" * 60, "\u0416\u0419 \u0439 \u0438\u0306", "$ a$b $$", "un##ing ##s # #", "1234 \u0661\u0662 \u00bd\u00b2\u2163", "\u2460\u24b6a\u0903", "\u10d50 \U00010d50\u1c89\ua7cb \u0897a",
           "\u2e43\u2e52\u061d\u09fd\u166d", "-\u2010\u2013\u2212\u00ad", "\r\n\r a\rb", "  lead and trail  ", "a\u0300b\u0327c\u20dd\u0488", "\u1e9b\u0323 \u212b \u2126 \u1112\u1161\u11ab", "\uac00\ub098\u11a8"]


def vocabulary(draw):
    words = list(dict.fromkeys(WORDS))
    if draw.random() < 0.4:
        words += CAPITALS
    draw.shuffle(words)
    words = words[: draw.randint(80, len(words))]
    special = list(SPECIAL)
    if draw.random() < 0.15:
        special.remove(draw.choice(["[PAD]", "[MASK]"]))
    place = draw.choice([0, 0, 0, 40])
    pieces = words[:place] + special + words[place:]
    if draw.random() < 0.2:
        pieces += ["<S>", "<T>", "[unused1]", "[E1]"]
    return pieces


def lines_of(draw, pieces):
    """vocab.txt with what such files have: doubled and empty lines, other line ends."""
    pieces, end = list(pieces), draw.choice(["\n"] * 5 + ["\r\n"])
    if draw.random() < 0.2:
        pieces.insert(draw.randint(10, len(pieces)), draw.choice(pieces[10:]))
    if draw.random() < 0.2:
        pieces.insert(draw.randint(10, len(pieces)), "")
    if draw.random() < 0.1:
        pieces.append("")
    if draw.random() < 0.1:
        pieces[-1] += draw.choice([" ", "\u3000", "\t"])
    return end.join(pieces) + draw.choice([end, end, ""])


def added(draw, count):
    names = draw.sample(["zed", "Qqq", "<ent>", "[E1]", "[E2]", "caf\u00e9", " two words ", "hello"], count)
    flag = lambda p: draw.random() < p
    return [AddedToken(name, single_word=flag(0.3), lstrip=flag(0.3), rstrip=flag(0.3), normalized=flag(0.5), special=flag(0.3))
            for name in names]


def as_dict(token):
    return {"content": token.content, "single_word": token.single_word, "lstrip": token.lstrip, "rstrip": token.rstrip,
            "normalized": token.normalized, "special": token.special}


def decoder(draw, known, tokens):
    """added_tokens_decoder: ids behind the pieces, but now and then wrong ones."""
    ids, next_id = {}, len(known)
    for token in tokens:
        id = known.get(token.content, next_id)
        next_id += id == next_id
        ids[str(id + (draw.random() < 0.03))] = as_dict(token)
    return ids


def bert_config(draw):
    config = {}
    for key, values in {"tokenizer_class": ["BertTokenizer"] * 4 + ["BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizer", None, "BertJapaneseTokenizer"],
                        "do_lower_case": [True, False, False, None], "strip_accents": [True, False, "null", None, None],
                        "tokenize_chinese_chars": [True, False, None, None]}.items():
        value = draw.choice(values)
        if value is not None:
            config[key] = None if value == "null" else value
    if draw.random() < 0.05:
        config["never_split"] = draw.choice([None, ["zed"]])
    return config


def name_tokens(draw, config, folder):
    if draw.random() < 0.3:
        config.update({"cls_token": "[CLS]", "mask_token": draw.choice(["[MASK]", {"__type": "AddedToken", "content": "[MASK]", "lstrip": True,
                       "rstrip": False, "single_word": False, "normalized": True}])})
    if draw.random() < 0.2:
        config[draw.choice(["additional_special_tokens", "extra_special_tokens"])] = ["[E1]", "[E2]"]
    if draw.random() < 0.2:
        (folder / "special_tokens_map.json").write_text(json.dumps({"mask_token": "[MASK]", "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
                                                                    "cls_token": draw.choice(["[CLS]", "[SEP]"])}))


def make_bert(draw, folder):
    pieces, config = vocabulary(draw), bert_config(draw)
    files = draw.choice(["vocab", "vocab", "json", "json", "both", "fast", "saved"])
    name_tokens(draw, config, folder)
    if files in ("vocab", "both"):
        (folder / "vocab.txt").write_text(lines_of(draw, pieces), encoding="utf-8", newline="")
    if files != "vocab":
        ids = {piece: id for id, piece in enumerate(pieces)}
        if draw.random() < 0.2:
            ids[draw.choice(pieces[10:])] = len(pieces) + draw.randint(0, 3)
        tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=draw.choice([100, 100, 100, 20])))
        tokenizer.normalizer = normalizers.BertNormalizer(clean_text=draw.random() < 0.85, handle_chinese_chars=draw.random() < 0.7,
                                                          strip_accents=draw.choice([None, True, False]), lowercase=draw.random() < 0.6)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        known = [name for name in SPECIAL if name in ids]
        tokenizer.add_special_tokens(known)
        if draw.random() < 0.5:
            tokenizer.add_tokens(added(draw, draw.randint(1, 4)))
        if "[CLS]" in ids and "[SEP]" in ids:
            tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
        tokenizer.save(str(folder / "tokenizer.json"))
        if files == "fast":
            config = {**config, "tokenizer_class": draw.choice(["PreTrainedTokenizerFast", "TokenizersBackend"])}
    elif draw.random() < 0.3:
        count = len(models.WordPiece.read_file(str(folder / "vocab.txt")))
        (folder / "added_tokens.json").write_text(json.dumps({"zed2": count, "[E1]x": count + 1}))
    if draw.random() < 0.3:
        known = {piece: id for id, piece in enumerate(pieces)}
        config["added_tokens_decoder"] = decoder(draw, known, added(draw, draw.randint(1, 3)))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    if files == "saved":
        resave(folder)


def make_roberta(draw, folder, learnt):
    model = json.loads(learnt)["model"]
    vocab, merges = model["vocab"], [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    if draw.random() < 0.2:
        del vocab[list(vocab)[-1]], merges[-1]
    config = {}
    for key, values in {"tokenizer_class": ["RobertaTokenizer"] * 3 + ["RobertaTokenizerFast", None], "add_prefix_space": [True, False, None]}.items():
        value = draw.choice(values)
        if value is not None:
            config[key] = value
    if draw.random() < 0.3:
        config["mask_token"] = draw.choice(["<mask>", {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False,
                                                        "single_word": False, "normalized": False}])
    if draw.random() < 0.2:
        config["additional_special_tokens"] = ["[E1]", "<ent>"]
    files = draw.choice(["vocab", "json", "fast", "saved"])
    if files == "vocab":
        (folder / "vocab.json").write_text(json.dumps(vocab))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges), encoding="utf-8")
        if draw.random() < 0.3:
            (folder / "added_tokens.json").write_text(json.dumps({"zed": len(vocab), "caf\u00e9": len(vocab) + 1}))
    else:
        tokenizer = Tokenizer(models.BPE(vocab, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=draw.random() < 0.4)
        tokenizer.add_special_tokens([name for name in ("<s>", "<pad>", "</s>", "<unk>", "<mask>") if name in vocab])
        if draw.random() < 0.5:
            tokenizer.add_tokens(added(draw, draw.randint(1, 4)))
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]))
        tokenizer.save(str(folder / "tokenizer.json"))
        if files == "fast":
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if draw.random() < 0.2:
        config["added_tokens_decoder"] = decoder(draw, vocab, added(draw, draw.randint(1, 3)))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    if files == "saved":
        resave(folder)


def resave(folder):
    """As the current transformers save what they have loaded."""
    config = (folder / "config.json").read_text()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception:
        return
    for file in folder.iterdir():
        file.unlink()
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(config)


def learn(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer.to_str()


def refusal_is_clear(message, folder):
    return str(folder) in message and message.count("\n") <= 1


def main(print_ids, folder, count=500, seed=1, *texts):
    logging.disable(logging.WARNING)
    folder = pathlib.Path(folder)
    draw = random.Random(int(seed))
    lines = list(HOSTILE)
    for path in texts:
        real = pathlib.Path(path).read_text(encoding="utf-8", errors="ignore").split("\n")
        lines += [line[:400] for line in draw.sample(real, min(20, len(real)))]
    learnt = learn(lines + [" ".join(WORDS)] * 3)
    results, problems = collections.Counter(), []
    for number in range(int(count)):
        of = folder / f"{number:04}"
        of.mkdir(parents=True)
        if draw.random() < 0.65:
            make_bert(draw, of)
        else:
            make_roberta(draw, of, learnt)
        try:
            reference = AutoTokenizer.from_pretrained(of)
            wanted = {line: reference(line, add_special_tokens=False)["input_ids"] for line in lines}
        except BaseException as error:  # tokenizers panics
            reference, wanted = None, f"{type(error).__name__}: {error}"
        names = [str(name) for name in (reference.pad_token, reference.unk_token, reference.cls_token, reference.sep_token, reference.mask_token) if name] if reference else []
        asked = [line for line in lines if not any(name in line for name in names)]
        (of / "texts").write_bytes("".join(line + "\0" for line in asked).encode())
        ran = subprocess.run([print_ids, of, of / "texts", of / "ids"], capture_output=True, text=True)
        if ran.returncode:
            clear = refusal_is_clear(ran.stderr, of)
            results["refused by both" if reference is None else "refused" if clear else "refused unclearly"] += 1
            reason = ran.stderr.strip().replace(str(of) + "/", "")
            results["  " + ("" if reference else "both: ") + "".join(c for c in reason if not c.isdigit())[:110]] += 1
            if not clear or ran.returncode != 1:
                problems.append((number, "refused", ran.stderr))
            continue
        if reference is None:
            results["taken, the reference fails"] += 1
            problems.append((number, "reference", wanted[:200]))
            continue
        found = [[int(id) for id in line.split()] for line in (of / "ids").read_text().split("\n")[:-1]]
        differ = [(line, wanted[line], ids) for line, ids in zip(asked, found, strict=True) if wanted[line] != ids]
        results["differs" if differ else "equal"] += 1
        if differ:
            problems.append((number, f"{len(differ)} of {len(asked)} texts", differ[0]))
    for name, number in sorted(results.items(), key=lambda item: (item[0][0] == " ", -item[1])):
        print(f"{number:5} {name}")
    for problem in problems[:40]:
        print(*problem)
    return int(any(results[name] for name in ("differs", "refused unclearly")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
