# ia-libre/sandbox: what code of the profile ia-libre finds in a container.
#
#   docker build -t ia-libre/sandbox:latest -f docker/sandbox.Dockerfile docker
#   docker build --build-arg BASE=registry.example/debian:12-slim ...
#
# coto-init is not in it: coto brings its own. Nothing here decides about walls either; the flags of
# the run do (docs/IMAGES.md).
ARG BASE=debian:12-slim
FROM ${BASE}

ARG PACKAGES="python3 python3-numpy bash coreutils gcc libc6-dev make"
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives /var/log/* \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

RUN groupadd --gid 9999 sandbox \
    && useradd --uid 9999 --gid 9999 --no-create-home --home-dir /work --shell /usr/sbin/nologin sandbox \
    && install -d -o 9999 -g 9999 -m 0755 /work

LABEL org.opencontainers.image.title="ia-libre/sandbox" \
      org.opencontainers.image.description="Root file system of coto's profile ia-libre" \
      org.opencontainers.image.licenses="Apache-2.0"

ENV LANG=C.UTF-8 HOME=/work PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
USER 9999:9999
CMD ["/bin/sh"]
