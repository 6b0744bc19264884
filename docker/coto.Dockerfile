# coto itself, for `coto serve` in a container (deploy/compose/docker-compose.coto.yml).
#
#   docker build -t coto:latest -f docker/coto.Dockerfile .
#
# What the container needs to be allowed, and why: deploy/compose/README.md.
ARG BASE=debian:12-slim
FROM ${BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc libc6-dev linux-libc-dev musl-tools meson \
        ninja-build pkg-config make libyaml-dev libssl-dev libjansson-dev libcurl4-openssl-dev libsqlite3-dev zlib1g-dev libzstd-dev \
        liblzma-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN tools/configure build-image --prefix=/usr/local && ninja -C build-image --quiet \
    && DESTDIR=/out meson install -C build-image --no-rebuild --quiet

FROM ${BASE}
# Languages for the programs: add to them with --build-arg LANGUAGES="python3 nodejs golang-go".
ARG LANGUAGES="python3"
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libyaml-0-2 libssl3 libjansson4 libcurl4 \
        libsqlite3-0 zlib1g libzstd1 liblzma5 gpgv uidmap ca-certificates curl ${LANGUAGES} \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives /var/log/*
COPY --from=build /out/usr/local /usr/local
RUN groupadd --gid 990 coto && useradd --uid 990 --gid 990 --create-home --home-dir /var/lib/coto --shell /usr/sbin/nologin coto

LABEL org.opencontainers.image.title="coto" \
      org.opencontainers.image.description="Sandboxes over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 990:990
WORKDIR /var/lib/coto
EXPOSE 8640
ENTRYPOINT ["/usr/local/bin/coto"]
CMD ["serve"]
