# Two commands do everything from a fresh clone: `make demo` and `make test`. Both may be run again at any time.
PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -q

.PHONY: demo test check smoke format lint types bench bench-scaling clean

demo: .venv/base.done  ## install, train five architectures on two tasks, print the table (3 minutes on two cores)
	.venv/bin/partwise reproduce mixit --scale quick --only needle,memorization --out out/demo

test: .venv/dev.done  ## install what the tests use, run them
	$(PY) -m pytest -n 2

check: lint types test smoke  ## what CI runs

smoke: .venv/base.done  ## one recipe, end to end, at its smallest
	.venv/bin/partwise reproduce mixit --scale tiny --fresh --out out/smoke

bench-scaling: .venv/base.done  ## what each arm costs and how cost grows, into docs/performance.md; on a quiet machine
	$(PY) -m benchmarks.performance

lint: .venv/dev.done
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: .venv/dev.done
	$(PY) -m mypy

bench: .venv/bench.done  ## how fast, beside the usual Hugging Face loop; on a quiet machine (benchmarks/README.md)
	$(PY) -m benchmarks

format: .venv/dev.done
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/base.done: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install -c constraints.txt -e ".[text]"
	touch $@

.venv/dev.done: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install -c constraints.txt -e ".[dev,hf,sentiment,text]"
	touch $@ .venv/base.done

.venv/bench.done: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install -c constraints.txt -e ".[bench]"
	touch $@ .venv/base.done

clean:
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache
