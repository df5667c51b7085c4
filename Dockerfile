# Two stages: wheels are built and installed in the first (which has a C compiler: the call path is compiled), only the
# result goes on. Nothing is fetched that is not locked.
FROM python:3.13 AS build
WORKDIR /src
COPY requirements-run.lock requirements-build.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/gateway \
 && /opt/gateway/bin/pip install --no-cache-dir --require-hashes -r requirements-run.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY gateway gateway
RUN HATCH_BUILD_HOOK_ENABLE_MYPYC=1 /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/gateway/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.13-slim
RUN useradd --system --uid 65532 --no-create-home gateway
COPY --from=build /opt/gateway /opt/gateway
USER 65532:65532
WORKDIR /etc/nim-gateway
ENV PATH=/opt/gateway/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 8443
# Nothing is written: run it with a read-only root; configuration, policies and certificates are mounted here.
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9090/healthz', timeout=2)"]
ENTRYPOINT ["nim-gateway"]
CMD ["serve", "--config", "config/gateway.yaml"]
