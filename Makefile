# Each target is one script; `make help` lists them. Only Rust, a C compiler, Python 3 and git have to be there.
.PHONY: help demo test test-agents test-clients test-image image image-full bench fuzz lint format
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## build, start the API with the demo agent, show it at work (runs, events, a streamed chat), stop
	@python3 scripts/demo.py

test: ## everything that a change must pass: format, clippy, tests, documentation
	@scripts/test.sh

test-agents: ## the five real agent CLIs on a mock model, through the HTTP API
	@python3 tests/agents/run.py

test-clients: ## clients that others wrote, talking to the API with a stub agent behind it
	@python3 tests/clients/run.py

test-image: ## the box and its examples in containers, on a Docker engine that is started when none answers
	@python3 tests/image/run.py

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

image: ## build the image aicodebox
	@DOCKER_BUILDKIT=1 docker build --build-arg VERSION=$(VERSION) --tag aicodebox .

image-full: image ## build the image aicodebox-full, with the toolchain of many languages
	@DOCKER_BUILDKIT=1 docker build --build-arg VERSION=$(VERSION) --file Dockerfile.full --tag aicodebox-full .

bench: ## measure against the floor of this machine; a missed target fails
	@python3 bench/run.py

fuzz: ## the property tests with 20,000 cases each, then every fuzz target for a minute
	@scripts/fuzz.sh

lint: ## format, clippy, documentation, licences, unused dependencies
	@scripts/lint.sh

format: ## format the sources
	@cargo fmt --all
