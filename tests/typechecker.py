"""Shapes and types checked while the tests run. An int counts as a float, as in PEP 484 and in every type checker."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
