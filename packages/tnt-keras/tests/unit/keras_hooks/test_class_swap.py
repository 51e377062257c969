"""An object gets more behaviour and stays the same object."""

from __future__ import annotations

from tnt_keras.keras_hooks.patch import add_mixin, plain_class, replaced, without_mixins


class Plain:
    def answer(self) -> int:
        return 1


class Doubled:
    def answer(self) -> int:
        return 2 * super().answer()  # type: ignore[misc]


def test_mixin_comes_before_the_objects_own_class() -> None:
    instance = Plain()
    add_mixin(instance, Doubled)
    assert instance.answer() == 2
    assert isinstance(instance, Plain)
    assert isinstance(instance, Doubled)


def test_mixin_is_added_once() -> None:
    instance = Plain()
    add_mixin(instance, Doubled)
    add_mixin(instance, Doubled)
    assert instance.answer() == 2


def test_a_second_mixin_leaves_the_plain_class_as_it_is() -> None:
    class Negative:
        def answer(self) -> int:
            return -super().answer()  # type: ignore[misc]

    instance = Plain()
    add_mixin(instance, Doubled)
    add_mixin(instance, Negative)
    assert instance.answer() == -2
    assert instance.__class__ is plain_class(type(instance)) is Plain
    with without_mixins(instance):
        assert instance.answer() == 1


def test_class_below_comes_just_before_the_class_that_it_extends() -> None:
    class Below(Plain):
        def answer(self) -> int:
            return super().answer() + 10

    class Own(Plain):
        def answer(self) -> int:
            return super().answer() + 100

    plain, own = Plain(), Own()
    add_mixin(plain, Doubled, below=Below)
    add_mixin(own, Doubled, below=Below)
    assert plain.answer() == 2 * (1 + 10)
    assert own.answer() == 2 * (1 + 10 + 100)
    assert isinstance(own, Below)
    with without_mixins(own):
        assert own.answer() == 101


def test_new_class_has_name_and_module_of_the_plain_one() -> None:
    instance = Plain()
    add_mixin(instance, Doubled)
    assert type(instance).__name__ == "Plain"
    assert type(instance).__module__ == Plain.__module__
    assert plain_class(type(instance)) is Plain


def test_an_instance_says_that_it_is_of_the_plain_class() -> None:
    instance = Plain()
    add_mixin(instance, Doubled)
    assert instance.__class__ is Plain
    assert type(instance) is not Plain
    with without_mixins(instance):
        assert type(instance) is instance.__class__ is Plain
    assert instance.__class__ is Plain
    assert instance.answer() == 2


def test_plain_class_is_back_inside_the_block_also_after_an_error() -> None:
    instance = Plain()
    add_mixin(instance, Doubled)
    try:
        with without_mixins(instance):
            assert type(instance) is Plain
            raise KeyError
    except KeyError:
        pass
    assert instance.answer() == 2


def test_replaced_attribute_of_an_instance_is_removed_again() -> None:
    instance = Plain()
    with replaced(instance, "answer", lambda: 5):
        assert instance.answer() == 5
    assert "answer" not in vars(instance)
    assert instance.answer() == 1


def test_replaced_attribute_of_a_class_is_restored() -> None:
    before = Plain.answer
    with replaced(Plain, "answer", lambda self: 7):
        assert Plain().answer() == 7
    assert Plain.answer is before
