"""The places of a page that a program writes: what stands between <!-- NAME --> and <!-- /NAME -->."""
import sys


def replace(file, name, text):
    before, begin, rest = file.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        sys.exit(f"{file} has no <!-- {name} --> and <!-- /{name} -->")
    file.write_text(before + begin + text + "\n" + end + after, encoding="utf-8")
