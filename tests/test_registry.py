"""A catalogue fills itself, says which two collide, and never looks whole when it is not."""

import sys

import pytest

from partwise.errors import PartwiseError, UnknownName
from partwise.registry import Registry
from partwise.tasks import TASKS
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention

FIRST = """
from shelf import THINGS

@THINGS.register("alpha")
class Alpha:
    '''The first thing.

    More about it.'''
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A package that owns a registry, with one file; returns the folder to put more files into."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from partwise.registry import Registry\nTHINGS = Registry('thing', package=__name__)\n"
    )
    (folder / "a_first.py").write_text(FIRST)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "shelf"]:
        del sys.modules[name]


def things():
    import shelf

    return shelf.THINGS


def test_it_fills_itself_from_the_files_beside_it_on_first_use(shelf):
    (shelf / "b_second.py").write_text(FIRST.replace("alpha", "beta"))
    assert things().names() == ["alpha", "beta"]
    assert things()["beta"].registered_name == "beta"
    assert things().summary("alpha") == "The first thing."


def test_two_parts_of_one_name_collide_and_both_modules_are_named(shelf):
    (shelf / "b_second.py").write_text(FIRST)
    with pytest.raises(ValueError, match=r"two things are called 'alpha': in shelf\.a_first and in shelf\.b_second\."):
        things().names()


def test_an_unknown_name_is_told_the_nearest_and_all(shelf):
    with pytest.raises(UnknownName) as caught:
        things()["alhpa"]
    assert str(caught.value) == "no thing is called 'alhpa'. Did you mean 'alpha'? There are: alpha."
    assert isinstance(caught.value, PartwiseError)
    assert isinstance(caught.value, LookupError)
    with pytest.raises(UnknownName) as caught:
        things()["quite another"]
    assert str(caught.value) == "no thing is called 'quite another'. There are: alpha."


def test_a_failed_import_says_in_which_file_and_leaves_no_catalogue_that_looks_whole(shelf):
    (shelf / "b_broken.py").write_text("1 / 0\n")
    (shelf / "c_third.py").write_text(FIRST.replace("alpha", "gamma"))
    for _ in range(2):  # not only the first time
        with pytest.raises(ZeroDivisionError) as caught:
            things().names()
        assert caught.value.__notes__ == ["raised while the things were read, in shelf.b_broken."]
        with pytest.raises(ZeroDivisionError):
            things()["alpha"]
    (shelf / "b_broken.py").write_text("# mended, and as long as it was\n")
    assert things().names() == ["alpha", "gamma"]


def test_a_part_from_elsewhere_joins_and_may_not_take_a_name(shelf):
    registry = things()

    @registry.register("delta")
    class Delta:
        """From outside."""

    assert registry.names() == ["alpha", "delta"]
    assert Delta in registry
    with pytest.raises(ValueError, match=r"in shelf\.a_first and in test_registry"):
        registry.register("alpha")(type("Mine", (), {"__module__": __name__}))


def test_a_registry_without_a_folder_holds_what_is_registered():
    registry = Registry("rule", package=None)
    assert registry.names() == []
    registry.register("only")(type("Only", (), {}))
    assert registry.names() == ["only"]


def test_a_subclass_is_not_the_part_it_derives_from():
    class Mine(Attention):
        pass

    assert Attention in TOKEN_MIXERS
    assert Mine not in TOKEN_MIXERS


def test_the_message_of_the_real_catalogue():
    with pytest.raises(UnknownName, match=r"no token mixer is called 'unifrm'\. Did you mean 'uniform'\? There are: "):
        TOKEN_MIXERS["unifrm"]


def test_a_class_that_is_run_again_takes_its_own_name_again():
    def cell():
        @TASKS.register("from_a_cell")
        class Cell:
            """A task in a notebook."""

        return Cell

    first, second = cell(), cell()
    assert first is not second
    assert TASKS["from_a_cell"] is second
