#!/usr/bin/env python3
"""Makes labels of words from the HTML of two Debian books, and questions by rule from wikitext.

For fine-tuning where no published set is at hand.

    apt-get download debian-handbook installation-guide-amd64    # and dpkg-deb -x each into BOOKS/PACKAGE
    bench/annotated_texts.py labels BOOKS OUTPUT        # train.conll, dev.conll, test.conll, other.conll
    bench/annotated_texts.py questions OUTPUT TEXT ...  # train.json, dev.json, test.json of wikitext's files
      [--none 0.33]                                     # this share of the questions has no answer, as in SQuAD 2.0

A label is the mark that the authors gave a word: a command, a file or a package. A question is a sentence in which a
name or a number that occurs once in its text, a run of sentences, is replaced; one without an answer is asked of
another text of the same article.
"""
import argparse
import html.parser
import json
import pathlib
import random
import re
import zlib

KINDS = {("code", "command"): "COMMAND", ("span", "command"): "COMMAND", ("code", "filename"): "FILE",
         ("span", "pkg pkg"): "PACKAGE", ("code", "classname"): "PACKAGE"}
WORD = re.compile(r"[A-Za-z0-9_./+~@%-]*[A-Za-z0-9_/+~%]|[^\sA-Za-z0-9]")


class Paragraphs(html.parser.HTMLParser):
    """Paragraphs as lists of (text, kind)."""

    def __init__(self):
        super().__init__()
        self.found, self.parts, self.marks, self.divisions, self.skipped = [], None, [], [], 0

    def handle_starttag(self, tag, attributes):
        if tag in ("pre", "script", "style", "table"):
            self.skipped += 1
        if tag == "div":
            self.divisions.append(dict(attributes).get("class") == "para")
        if tag == "p" or (tag == "div" and self.divisions[-1]):
            self.parts = []
        if self.parts is not None and tag in ("code", "span"):
            self.marks.append((tag, KINDS.get((tag, dict(attributes).get("class", "")))))

    def handle_endtag(self, tag):
        if tag in ("pre", "script", "style", "table"):
            self.skipped -= 1
        if self.marks and tag == self.marks[-1][0]:
            self.marks.pop()
        ends = tag == "p" or (tag == "div" and bool(self.divisions) and self.divisions.pop())
        if ends and self.parts is not None:
            self.found.append(self.parts)
            self.parts, self.marks = None, []

    def handle_data(self, data):
        if self.parts is not None and self.skipped == 0:
            self.parts.append((data, next((kind for _, kind in reversed(self.marks) if kind), None)))


def sentences(page):
    parser = Paragraphs()
    parser.feed(page.read_text(encoding="utf-8", errors="replace"))
    for parts in parser.found:
        words, labels = [], []
        for text, kind in parts:
            for i, word in enumerate(WORD.findall(text)):
                words.append(word)
                labels.append("O" if kind is None else f"{'B' if i == 0 else 'I'}-{kind}")
        begin = 0
        for i, word in enumerate(words):
            ends = word in ".!?" and labels[i] == "O" and (i + 1 == len(words) or words[i + 1][0].isupper())
            if ends or i + 1 == len(words):
                if i + 1 - begin >= 4:
                    yield list(zip(words[begin:i + 1], labels[begin:i + 1]))
                begin = i + 1


def labels(books, output):
    seen, counts = set(), {}
    files = {name: open(output / f"{name}.conll", "w", encoding="utf-8") for name in ("train", "dev", "test", "other")}
    pages = [(page, None) for page in sorted(books.glob("debian-handbook/**/en-US/*.html"))]
    pages += [(page, "other") for page in sorted(books.glob("installation-guide-amd64/**/en/*.html"))]
    for page, part in pages:
        share = zlib.crc32(page.name.encode()) % 100
        name = part or ("train" if share < 64 else "dev" if share < 77 else "test")
        for sentence in sentences(page):
            text = " ".join(word for word, _ in sentence)
            if text in seen:
                continue
            seen.add(text)
            files[name].write("".join(f"{word}\t{label}\n" for word, label in sentence) + "\n")
            of = counts.setdefault(name, [0, 0, 0])
            of[0] += 1
            of[1] += len(sentence)
            of[2] += sum(label.startswith("B-") for _, label in sentence)
    for name, (number, words, entities) in counts.items():
        print(f"{name}: {number} sentences, {words} words, {entities} entities")


def articles(files):
    paragraphs = []
    for file in files:
        for line in pathlib.Path(file).read_text(encoding="utf-8").split("\n"):
            line = line.strip()
            if re.fullmatch(r"= [^=].* =", line):
                if paragraphs:
                    yield paragraphs
                paragraphs = []
            elif line and not line.startswith("="):
                line = line.replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
                paragraphs.append(line)
    if paragraphs:
        yield paragraphs


def passages(paragraph):
    """Runs of sentences of 30 to 75 words."""
    now = []
    for sentence in re.split(r"(?<= [.!?]) ", paragraph):
        if "<unk>" in sentence:
            continue
        if now and len(" ".join(now + [sentence]).split()) > 75:
            yield now
            now = []
        now.append(sentence)
    yield now


def asked(sentence, answer):
    """Up to eight words on each side of the answer, and a question word in its place."""
    before, after = sentence.split(answer, 1)
    word = "when" if re.fullmatch(r"1\d{3}|20\d{2}", answer) else "how many" if answer[0].isdigit() else "what"
    return " ".join(before.split()[-8:] + [word] + after.split()[:8]).rstrip(" .") + " ?"


def questions_of(sentences):
    text = " ".join(sentences)
    if not 30 <= len(text.split()) <= 75:
        return
    for sentence in sentences:
        for match in re.finditer(r"(?<= )(\d[\d,.]*\d|\d+|[A-Z][a-z]+(?: [A-Z][a-z]+)*)(?= )", sentence):
            answer = match.group(1)
            if text.count(answer) == 1 and len(sentence.split()) >= 8:
                yield asked(sentence, answer), answer, text


def questions(output, files, none):
    drawn = random.Random(5)
    parts = {"train": [], "dev": [], "test": []}
    for number, paragraphs in enumerate(articles(files)):
        name = ("train", "dev", "train", "test")[number % 4]
        found = []
        for sentences_of in (run for paragraph in paragraphs for run in passages(paragraph)):
            possible = list(questions_of(sentences_of))
            found += drawn.sample(possible, min(3, len(possible)))
        texts = sorted({text for _, _, text in found})
        for question, answer, text in found:
            other = [each for each in texts if each != text and answer not in each]
            if none > 0 and other and drawn.random() < none:
                parts[name].append((drawn.choice(other), question, None))
            else:
                parts[name].append((text, question, answer))
    for name, all_of in parts.items():
        paragraphs = []
        for i, (text, question, answer) in enumerate(all_of):
            answers = [] if answer is None else [{"text": answer, "answer_start": text.index(answer)}]
            asked_of = {"id": f"{name}-{i}", "question": question, "answers": answers}
            if none > 0:
                asked_of["is_impossible"] = answer is None
            paragraphs.append({"context": text, "qas": [asked_of]})
        (output / f"{name}.json").write_text(json.dumps({"data": [{"title": name, "paragraphs": paragraphs}]}))
        print(f"{name}: {len(all_of)} questions, {sum(answer is None for *_, answer in all_of)} without an answer")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of = commands.add_parser("labels")
    of.add_argument("books", type=pathlib.Path)
    of.add_argument("output", type=pathlib.Path)
    of = commands.add_parser("questions")
    of.add_argument("output", type=pathlib.Path)
    of.add_argument("texts", nargs="+")
    of.add_argument("--none", type=float, default=0)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    if given.command == "labels":
        labels(given.books, given.output)
    else:
        questions(given.output, given.texts, given.none)


if __name__ == "__main__":
    main()
