"""The check accepts this tree and finds each kind of violation in a small made-up one."""

from pathlib import Path

import check_layers


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_this_tree_follows_the_arrows(capsys):
    assert check_layers.main([]) == 0, capsys.readouterr().out


def test_an_include_of_a_higher_layer_is_named(tmp_path, capsys):
    source = '#include "tnt/comm/base/error.hpp"\n#include "tnt/comm/progress/engine.hpp"\n'
    write(tmp_path / "packages/tnt-comm/cpp/tnt/comm/kernel/reduce.hpp", source)
    assert check_layers.main([str(tmp_path)]) == 1
    assert "layer kernel must not include layer progress" in capsys.readouterr().out


def test_a_layer_without_a_row_is_named(tmp_path, capsys):
    write(tmp_path / "packages/tnt-comm/cpp/tnt/comm/magic/spell.cpp", "")
    assert check_layers.main([str(tmp_path)]) == 1
    assert "no row for layer 'magic'" in capsys.readouterr().out


def test_a_tree_below_a_folder_of_that_name_is_checked_too(tmp_path, capsys):
    root = tmp_path / "cpp"
    write(root / "packages/tnt-comm/cpp/tnt/comm/base/error.hpp", "")
    assert check_layers.main([str(root)]) == 0, capsys.readouterr().out


def test_the_table_of_layers_has_no_cycle():
    remaining = dict(check_layers.INCLUDES)
    while remaining:
        lowest = [layer for layer, needs in remaining.items() if not needs & set(remaining)]
        assert lowest, f"these layers need each other: {sorted(remaining)}"
        for layer in lowest:
            del remaining[layer]


def test_what_engines_share_knows_none_of_them(tmp_path: Path) -> None:
    source = '#include "tnt/comm/transport/rma/gpi2/gaspi_process.hpp"\n'
    write(tmp_path / "packages/tnt-comm/cpp/tnt/comm/transport/rma/mailbox.hpp", source)
    write(tmp_path / "packages/tnt-comm/cpp/tnt/comm/transport/hierarchical/join.cpp", source)
    assert list(check_layers.check_includes(tmp_path)) == [
        "packages/tnt-comm/cpp/tnt/comm/transport/rma/mailbox.hpp: transport/rma must not include"
        " transport/rma/gpi2"
    ]


def test_a_new_folder_of_transports_needs_a_row(tmp_path: Path) -> None:
    write(tmp_path / "packages/tnt-comm/cpp/tnt/comm/transport/rma/pigeons/fly.cpp", "")
    (violation,) = check_layers.check_includes(tmp_path)
    assert "no row for folder 'transport/rma/pigeons'" in violation
