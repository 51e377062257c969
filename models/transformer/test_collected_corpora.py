"""Sentences are collected from packages that the tests make; nothing is downloaded."""

import itertools
import shutil
import struct
import subprocess
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.transformer import collect_corpora
from models.transformer.catalogues import read_catalogue
from models.transformer.collect_corpora import drop_duplicates, split_of, split_pairs
from models.transformer.package_catalogues import (
    NotAvailableError,
    find_packages,
    installed_packages,
    licences_in,
    read_wheel,
)
from models.transformer.sentence_filter import clean, is_pair
from models.transformer.text_files import read_lines

HEADER = "Project-Id-Version: test\nContent-Type: text/plain; charset={}\n"
SENTENCES = {
    "The file could not be opened.": "Die Datei konnte nicht geöffnet werden.",
    "Do you want to save the changes?": "Möchten Sie die Änderungen speichern?",
    "Open": "Öffnen",
    "The value of %s is too large": "Der Wert von %s ist zu groß",
}
KEPT = dict(itertools.islice(SENTENCES.items(), 2))


def make_catalogue(messages, charset="utf-8", order="<"):
    """Content of a `.mo` file, as the manual of gettext has it."""
    entries = [("", HEADER.format(charset)), *messages.items()]
    encoded = [[text.encode(charset) for text in entry] for entry in entries]
    begin = 28 + 16 * len(entries)
    tables, texts = [], b""
    for side in zip(*encoded, strict=True):
        for text in side:
            tables += [len(text), begin + len(texts)]
            texts += text + b"\0"
    first = (0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    return struct.pack(f"{order}{len(first) + len(tables)}I", *first, *tables) + texts


def write_catalogue(folder, messages=SENTENCES, language="de", name="program.mo"):
    folder = folder / language / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(make_catalogue(messages))


@given(st.dictionaries(st.text("aä \n", min_size=1), st.text("aß.", min_size=1)))
def test_catalogues_give_their_messages(messages):
    assert dict(read_catalogue(make_catalogue(messages))) == messages


@pytest.mark.parametrize("charset", ["utf-8", "ISO-8859-1"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_catalogues_of_any_encoding_and_order_of_bytes_are_read(charset, order):
    content = make_catalogue(SENTENCES, charset, order)
    assert dict(read_catalogue(content)) == SENTENCES


def test_contexts_plurals_and_missing_translations_are_left_out():
    messages = {"menu\x04Open it": "Öffnen", "a file\0files": "Datei\0Dateien", "No": ""}
    found = dict(read_catalogue(make_catalogue(messages)))
    assert found == {"Open it": "Öffnen", "a file": "Datei"}


@pytest.mark.parametrize("cut", [0, 3, 10, 60, -30])
def test_damaged_catalogues_are_refused(cut):
    content = make_catalogue(SENTENCES)
    with pytest.raises(ValueError, match=r"damaged|no compiled catalogue"):
        list(read_catalogue(content[:cut]))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Too few words", "Zu wenige Worte"),
        ("There is a format %s in it", "Da ist ein Format %s drin"),
        ("There is <b>markup</b> in it", "Da ist <b>Markup</b> drin"),
        (
            "The name is GNU Image Manipulation Program",
            "the name is gnu image manipulation program",
        ),
        ("1 2 3 4 5 6 words", "1 2 3 4 5 6 Worte"),
        ("This is not translated as a whole", "Dies ist"),
    ],
)
def test_what_is_no_sentence_with_its_translation_is_left_out(source, target):
    assert not is_pair(source, target, min_words=4)


def test_sentences_are_kept_and_written_in_one_way():
    for source, target in KEPT.items():
        assert is_pair(source, target, min_words=4)
    assert clean(" a\n b\u00a0c  a\u0308 ") == "a b c ä"


def test_sentences_are_kept_once_with_their_most_frequent_translation():
    pairs = [("Go on", "Los"), ("Go on.", "Weiter"), ("Go on", "Fort"), ("Go on.", "Weiter")]
    assert drop_duplicates(pairs) == [("Go on.", "Weiter")]
    assert drop_duplicates(reversed(pairs)) == [("Go on.", "Weiter")]
    assert drop_duplicates(pairs[:1] + pairs[2:3]) == [("Go on", "Fort")]


def test_a_sentence_is_on_the_same_side_whatever_else_is_collected():
    pairs = [(f"sentence {number}", "Satz") for number in range(3000)]
    whole, half = split_pairs(pairs), split_pairs(pairs[::2])
    assert sum(map(len, whole.values())) == 3000
    for split, share in {"train": 0.96, "dev": 0.02, "test": 0.02}.items():
        assert set(half[split]) == set(whole[split]) & set(pairs[::2])
        assert len(whole[split]) == pytest.approx(3000 * share, abs=30)
    assert [split_of(fraction) for fraction in (0, 0.019, 0.021, 0.041)] == [
        "test",
        "test",
        "dev",
        "train",
    ]


def test_a_folder_of_catalogues_becomes_a_corpus(tmp_path, capsys):
    write_catalogue(tmp_path / "locale")
    write_catalogue(tmp_path / "locale", language="fr")
    (tmp_path / "locale/LICENCE").write_text("MIT\n", encoding="utf-8")
    arguments = ["--sources", str(tmp_path / "locale"), str(tmp_path / "none")]
    for name in ("first", "second"):
        assert collect_corpora.main(["--output_dir", str(tmp_path / name), *arguments]) == 0
    assert f"not available: {tmp_path}/none: there is no such folder" in capsys.readouterr().err
    found = {}
    for split in ("train", "dev", "test"):
        sides = [read_lines(tmp_path / f"first/{split}.{language}") for language in ("en", "de")]
        found |= zip(*sides, strict=True)
    assert found == KEPT
    licences = (tmp_path / "first/LICENCES").read_text(encoding="utf-8")
    assert "locale: 2 pairs" in licences
    assert "\n    MIT\n" in licences
    files = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert len(files) == 7
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "locale", "second"]


def test_nothing_found_is_a_failure_and_leaves_nothing(tmp_path, capsys):
    write_catalogue(tmp_path / "locale", {"Open": "Öffnen"})
    arguments = ["--output_dir", str(tmp_path / "corpus"), "--sources", str(tmp_path / "locale")]
    assert collect_corpora.main(arguments) == 1
    assert "Nothing was found" in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


def test_a_corpus_is_never_overwritten(tmp_path, capsys):
    with pytest.raises(SystemExit):
        collect_corpora.main(["--output_dir", str(tmp_path)])
    assert "exists already: name a new folder" in capsys.readouterr().err


def test_a_damaged_catalogue_is_named_and_the_others_are_read(tmp_path, capsys):
    write_catalogue(tmp_path / "locale")
    (tmp_path / "locale/de/LC_MESSAGES/a.mo").write_bytes(b"nothing of the kind")
    arguments = ["--output_dir", str(tmp_path / "corpus"), "--sources", str(tmp_path / "locale")]
    assert collect_corpora.main(arguments) == 0
    assert "left out: a catalogue of" in capsys.readouterr().err


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(contributions):
        raise KeyboardInterrupt

    write_catalogue(tmp_path / "locale")
    monkeypatch.setattr(collect_corpora, "licence_lines", fail)
    arguments = ["--output_dir", str(tmp_path / "corpus"), "--sources", str(tmp_path / "locale")]
    with pytest.raises(KeyboardInterrupt):
        collect_corpora.main(arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["locale"]


def write_program(folder, name, script):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def debian(tmp_path, monkeypatch):
    """Has one package, `program-l10n`, whose licence is in another one, `program-base`."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg, which makes the packages of this test")
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("program-l10n", "program-base"):
        root = tmp_path / name
        documents = root / "usr/share/doc"
        documents.mkdir(parents=True)
        if name == "program-l10n":
            write_catalogue(root / "usr/lib/program")
            (documents / name).symlink_to("program-base")
        else:
            (documents / name).mkdir()
            (documents / name / "copyright").write_text("License: GPL-2+\n text\n")
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: 1:2.0\nArchitecture: all\nMaintainer: nobody\n"
            "Description: test\n"
        )
        command = ["dpkg-deb", "--build", "--root-owner-group", root, archive / f"{name}_2.deb"]
        subprocess.run(command, check=True, capture_output=True)
    script = (
        f'cp {archive}/$2_*.deb . || {{ echo "E: Unable to locate package $2" >&2; exit 100; }}'
    )
    write_program(tmp_path / "bin", "apt-get", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return tmp_path


def test_debian_packages_are_downloaded_and_unpacked(debian):
    [package] = find_packages("debian:missing|program-l10n", "de")
    assert package.source == "debian:program-l10n 1:2.0"
    assert package.licence == "GPL-2+"
    assert [dict(read_catalogue(content)) for content in package.catalogues] == [SENTENCES]


def test_a_missing_debian_package_is_not_available_with_advice(debian):
    with pytest.raises(NotAvailableError, match=r"locate package missing \(run `apt-get update`"):
        list(find_packages("debian:missing", "de"))
    with pytest.raises(NotAvailableError, match="no catalogues of this language"):
        list(find_packages("debian:program-l10n", "fr"))


def test_without_apt_debian_packages_are_not_available(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotAvailableError, match="there is no command apt-get"):
        list(find_packages("debian:git", "de"))


def test_installed_packages_are_found_by_the_owners_of_catalogues(tmp_path, monkeypatch):
    for name in ("one.mo", "two.mo"):
        write_catalogue(tmp_path / name, name=name)
        shutil.copytree(tmp_path / name, tmp_path / "usr/share/locale", dirs_exist_ok=True)
    documents = tmp_path / "usr/share/doc/program"
    documents.mkdir(parents=True)
    (documents / "copyright").write_text("see /usr/share/common-licenses/GPL-3.\n")
    write_program(tmp_path / "bin", "dpkg", 'for path in "$2" "$3"; do echo "program: $path"; done')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    [package] = installed_packages(tmp_path, "de")
    assert package.source == "installed:program"
    assert package.licence == "GPL-3"
    assert len(package.catalogues) == 2


def write_wheel(folder, fields=""):
    path = folder / "program-1.0-py3-none-any.whl"
    information = "program-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for language in ("de_DE", "fr"):
            name = f"program/locale/{language}/LC_MESSAGES/messages.mo"
            wheel.writestr(name, make_catalogue(SENTENCES))
        metadata = f"Metadata-Version: 2.1\nName: program\nVersion: 1.0\n{fields}"
        wheel.writestr(f"{information}/METADATA", metadata)
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{information}/WHEEL", tag)
        wheel.writestr(f"{information}/RECORD", "")
    return path


def test_wheels_are_downloaded_by_pip_and_read(tmp_path, monkeypatch):
    write_wheel(tmp_path, "License-Expression: BSD-3-Clause\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    [package] = find_packages("pypi:program", "de")
    assert package.source == "pypi:program 1.0"
    assert package.licence == "BSD-3-Clause"
    assert [dict(read_catalogue(content)) for content in package.catalogues] == [SENTENCES]
    with pytest.raises(NotAvailableError, match="No matching distribution found for missing"):
        list(find_packages("pypi:missing", "de"))


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ("Classifier: License :: OSI Approved :: MIT License\nLicense: see file\n", "MIT License"),
        ("License: Apache 2.0\n", "Apache 2.0"),
        ("", "not stated in a machine-readable way; see its copyright file"),
    ],
)
def test_the_licence_of_a_wheel_is_what_its_metadata_say(tmp_path, fields, licence):
    assert read_wheel(write_wheel(tmp_path, fields), "de").licence == licence


def test_the_licences_of_a_copyright_file_are_named_once():
    text = "Files: *\nLicense: GPL-2+\n text\n\nFiles: a\nLicense: MIT\n\nLicense: GPL-2+\n text\n"
    assert licences_in(text) == "GPL-2+, MIT"
    assert (
        licences_in("no word of it")
        == "not stated in a machine-readable way; see its copyright file"
    )
