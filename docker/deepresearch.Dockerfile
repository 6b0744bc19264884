# ia-libre/deepresearch: mathematics, tables and diagrams, for the profile deepresearch.
#
#   docker build -t ia-libre/deepresearch:latest -f docker/deepresearch.Dockerfile docker
#
# Everything comes from Debian but mermaid-cli, which Debian has not (npm), and polars, which Debian 12
# has not: --build-arg PIP_PACKAGES=polars==1.9.0 adds it. --build-arg MERMAID= leaves mermaid-cli and
# its browser out.
ARG BASE=debian:12-slim
FROM ${BASE}

ARG PACKAGES="python3 python3-matplotlib python3-networkx python3-pandas python3-scipy python3-sympy graphviz fonts-dejavu-core"
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives /var/log/*

ARG MERMAID=10.9.1
# hadolint ignore=DL3008,DL3016
RUN if [ -n "${MERMAID}" ]; then \
        apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates chromium nodejs npm \
        && PUPPETEER_SKIP_DOWNLOAD=1 PUPPETEER_SKIP_CHROMIUM_DOWNLOAD=1 npm install --global "@mermaid-js/mermaid-cli@${MERMAID}" \
        && apt-get purge -y npm && apt-get autoremove -y \
        && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives /var/log/* /root/.npm; \
    fi

ARG PIP_PACKAGES=""
# hadolint ignore=DL3008,DL3013
RUN if [ -n "${PIP_PACKAGES}" ]; then \
        apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-pip \
        && pip install --break-system-packages --no-cache-dir --no-compile ${PIP_PACKAGES} \
        && apt-get purge -y python3-pip && apt-get autoremove -y \
        && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives /var/log/*; \
    fi

# The browser has no sandbox of its own in here: the container is one, and gives it no namespaces.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
    && mkdir -p /etc/mermaid \
    && printf '{"executablePath": "/usr/bin/chromium", "args": ["--no-sandbox", "--disable-gpu"]}\n' > /etc/mermaid/puppeteer.json \
    && groupadd --gid 9999 deepresearch \
    && useradd --uid 9999 --gid 9999 --no-create-home --home-dir /workspace --shell /usr/sbin/nologin deepresearch \
    && install -d -o 9999 -g 9999 -m 0755 /workspace /workspace/output /var/log/deepresearch

LABEL org.opencontainers.image.title="ia-libre/deepresearch" \
      org.opencontainers.image.description="Root file system of coto's profile deepresearch" \
      org.opencontainers.image.licenses="Apache-2.0"

ENV LANG=C.UTF-8 HOME=/workspace MPLBACKEND=Agg MPLCONFIGDIR=/tmp/matplotlib PYTHONDONTWRITEBYTECODE=1
WORKDIR /workspace
USER 9999:9999
CMD ["/bin/sh"]
