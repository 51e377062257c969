"""The declarations of a header in C, without comments, in one form."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LEFT_OUT = re.compile(r"^\s*#\s*if 0$.*?^\s*#\s*endif", re.MULTILINE | re.DOTALL)
_CONTINUED = re.compile(r"\\\n")
_CONSTANT = re.compile(r"^\s*#\s*define\s+(\w+(?:\([^)]*\))?)[ \t]+(\S.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*#.*$", re.MULTILINE)
_ENUM = re.compile(r"typedef enum \{(?P<words>.*)\} (?P<name>\w+)")
_STRUCT = re.compile(r"typedef struct \{.*\} (?P<name>\w+)")
_FUNCTION = re.compile(r"(?P<name>\w+)\(")


def declarations_of(header: str) -> dict[str, str]:
    """Return constants, macros, types, functions and the words of enums by their names."""
    text = _CONTINUED.sub(" ", _LEFT_OUT.sub(" ", _COMMENT.sub(" ", header)))
    found = {name: " ".join(value.split()) for name, value in _CONSTANT.findall(text)}
    text = _DIRECTIVE.sub("", text).replace('extern "C" {', "")
    for declaration in _split(text):
        enum = _ENUM.fullmatch(declaration)
        if enum is not None:  # a word more changes nothing for who does not use it
            found[enum["name"]] = "enum"
            for word in enum["words"].split(","):
                name, _, value = word.partition("=")
                if name.strip():
                    found[name.strip()] = f"{value.strip()} of {enum['name']}"
            continue
        named = _STRUCT.fullmatch(declaration) or _FUNCTION.search(declaration)
        found[declaration if named is None else named["name"]] = declaration
    return dict(sorted(found.items()))


def _split(text: str) -> list[str]:
    """Cut behind each semicolon that is not inside of braces; blanks become one."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == ";" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    words = [" ".join(re.sub(r"([(){}*,;=])", r" \1 ", part).split()) for part in parts]
    tidy = [re.sub(r" ([,;)])", r"\1", re.sub(r"([(*]) ", r"\1", one)) for one in words]
    return [re.sub(r"(\w) \(", r"\1(", one) for one in tidy if one.strip("} ")]
