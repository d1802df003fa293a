"""Compares the documented Python functions that data/corpus/functions.h finds with those of Python's own parser.

usage: check_functions.py PRINT_FUNCTIONS FOLDER...   (print_functions of the build folder; folders of .py files)

Every function with a docstring of at least 16 bytes and more than that in its body has to be found, once, with
that docstring and all of its code; functions within one that was found are part of it. White space at the ends
of lines is not compared, nor are the comments that follow a function's last statement.
"""
import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def clean(text):
    """Lines without the blanks around them, as both sides join them."""
    return "\n".join(line.strip() for line in text.strip().split("\n")).strip()


def without_last_comments(lines):
    while lines and (not lines[-1].strip() or lines[-1].strip().startswith("#")):
        lines = lines[:-1]
    return lines


def documented(node, lines):
    """What has to be found of a function: name, docstring, lines of code; None if it is none."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or len(node.body) < 2:
        return None
    text = ast.get_docstring(node, clean=False)
    first = node.body[0]
    if text is None or len(clean(text).encode()) < 16 or first.lineno == head_end(node, lines):
        return None
    # Comments between the head and the docstring are left out.
    head = without_last_comments(lines[node.lineno - 1:first.lineno - 1])
    code = head + lines[first.end_lineno:node.end_lineno]
    return node.name, clean(text), [line.strip() for line in code]


def head_end(node, lines):
    """The line of the colon, if the body begins in it."""
    first = node.body[0]
    before = lines[first.lineno - 1].encode()[:first.col_offset].decode(errors="replace").strip()
    return first.lineno if before else -1


def functions(tree, lines):
    found = []

    def visit(node):
        function = documented(node, lines)
        if function:
            found.append(function)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return found


def main():
    files, expected = [], []
    for folder in sys.argv[2:]:
        for path in sorted(Path(folder).rglob("*.py")):
            try:
                source = path.read_bytes().decode()
                lines = source.replace("\r\n", "\n").split("\n")
                expected.append(functions(ast.parse(source), lines))
            except (SyntaxError, ValueError, RecursionError):
                continue
            files.append(path)
    with tempfile.NamedTemporaryFile() as output:
        for begin in range(0, len(files), 500):
            subprocess.run([sys.argv[1], "python", output.name + str(begin), *map(str, files[begin:begin + 500])],
                           check=True)
        answers = [json.loads(line) for begin in range(0, len(files), 500)
                   for line in Path(output.name + str(begin)).read_text(encoding="utf-8").splitlines()]
    total = missed = more = documentation = code = 0
    for path, theirs, ours in zip(files, expected, answers, strict=True):
        total += len(theirs)
        ours = [(f["name"], clean(f["documentation"]), [x.strip() for x in f["code"].split("\n")]) for f in ours]
        rest = list(ours)
        for name, text, lines in theirs:
            same = [f for f in rest if f[0] == name and f[1] == text] or [f for f in rest if f[0] == name]
            if not same:
                missed += 1
                print(f"{path}: {name}: not found")
                continue
            rest.remove(same[0])
            if same[0][1] != text:
                documentation += 1
                print(f"{path}: {name}: documentation {same[0][1]!r:.200} instead of {text!r:.200}")
            elif without_last_comments(same[0][2]) != without_last_comments(lines):
                code += 1
                print(f"{path}: {name}: code ends {same[0][2][-3:]} instead of {lines[-3:]}")
        more += len(rest)
        for name, *_ in rest:
            print(f"{path}: {name}: found, but no documented function")
    print(f"{total} functions in {len(files)} files: {missed} not found, {more} too many, "
          f"{documentation} with other documentation, {code} with other code")
    return 1 if missed or more or documentation or code else 0


if __name__ == "__main__":
    sys.exit(main())
