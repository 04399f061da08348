# The box: PID 1, the gateway, and what agents need. A child image adds an agent: see docs/child-images.md.
#   docker build -t aicodebox .
ARG BASE_IMAGE=ubuntu:24.04
ARG RUST_IMAGE=rust:1-bookworm
# Where the program comes from: `build` makes it, `prebuilt` takes .cache/image/prebuilt/aicodebox.
ARG PROGRAM=build

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
RUN --mount=type=cache,target=/root/.cargo/registry --mount=type=cache,target=/src/target \
    CARGO_HOME=/root/.cargo cargo build --locked --profile image --package aicodebox --bin aicodebox \
    && cp target/image/aicodebox /aicodebox

FROM scratch AS prebuilt
COPY .cache/image/prebuilt/aicodebox /aicodebox

# Only a name: ARG can choose a stage, but not the source of a COPY.
FROM ${PROGRAM} AS program

FROM ${BASE_IMAGE}
ENV LANG=C.UTF-8 \
    PIP_BREAK_SYSTEM_PACKAGES=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
# A layer for each, so that a new version of one does not build the others again.
RUN --mount=type=bind,source=docker/install,target=/install /install/all.sh base
RUN --mount=type=bind,source=docker/install,target=/install /install/all.sh docker
RUN --mount=type=bind,source=docker/install,target=/install /install/all.sh node
RUN --mount=type=bind,source=docker/install,target=/install /install/all.sh python
RUN --mount=type=bind,source=docker/install,target=/install /install/all.sh user
# What adapters written for the original import, and how the gateway speaks to them.
RUN --mount=type=bind,source=docker/python,target=/python \
    cp -r /python /tmp/python && pip install --quiet /tmp/python && rm -rf /tmp/python
# Not readable: the kernel then hides whoever executes it from the first instant, and the agents' user cannot look
# into the environment of a health check.
COPY --from=program --chmod=0711 /aicodebox /usr/local/bin/aicodebox
RUN ln -s aicodebox /usr/local/bin/aicodebox-entrypoint

# The version of Cargo.toml; `make image` passes it, and the image's test compares.
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="aicodebox" \
      org.opencontainers.image.description="Puts any AI coding agent CLI on the network" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
WORKDIR /workspace
EXPOSE 8080 8081
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/aicodebox", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/aicodebox-entrypoint"]
