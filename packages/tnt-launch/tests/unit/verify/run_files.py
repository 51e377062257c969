"""Files of hashes as tnt-keras writes them, made up."""

import json

from tnt_launch.verify.hash_file import parse_hash_file

HEADER = {
    "kind": "run",
    "format": 1,
    "size": 1,
    "lanes": 4,
    "threads": 1,
    "processor": "AMD EPYC",
    "instructions": ["avx2", "avx512f"],
    "tensorflow": "2.21.0",
    "keras": "3.15.0",
    "python": "3.11.7",
    "onednn": "1",
    "deterministic": True,
    "seeded": True,
    "compute_dtype": "float32",
}


def header(**values):
    return {**HEADER, **values}


def step(number, results=None, variables=None, kind="train_step", model="net"):
    """A step whose results are numbers, or texts for hashes of arrays."""
    described = {
        name: {"value": value, "hash": repr(value)} if isinstance(value, float) else {"hash": value}
        for name, value in (results or {}).items()
    }
    values = {"kind": "step", "number": number, "step": kind, "model": model}
    return {**values, "results": described, "variables": variables or {}}


def note(about, text):
    return {"kind": "note", "about": about, "text": text}


def end(steps=2, **norms):
    return {"kind": "end", "steps": steps, "norms": norms}


def record(*lines, with_end=True, **values):
    """What is read from a header with values, lines, and an end."""
    written = [header(**values), *lines, *([end()] if with_end else [])]
    return parse_hash_file(map(json.dumps, written), "hashes.jsonl")
