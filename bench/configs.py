"""What each server under test is told: its configuration as text, written from one `Site`.

Every one of them: one worker, TLS 1.3 with the same certificate, keep-alive both sides, two backends, least busy first,
a health check every five seconds where the free edition has one, no access log. The gateway alone writes an audit line.
Must not know: how servers are started or measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.material import AUDIENCE, KEY_ID
from bench.work import CHAT_PATH, MODEL, TENSOR_MODEL, TENSOR_PATH

PASSWORD = "sk-bench"  # the key that LiteLLM knows its callers by
CONNECTIONS = 9000  # two descriptors a stream must fit below a common hard limit of 20 000


APACHE_MODULES = """
mpm_event authn_core authz_core authz_user auth_openidc proxy proxy_http proxy_balancer lbmethod_bybusyness slotmem_shm
socache_shmcb ssl
"""


@dataclass(frozen=True, slots=True)
class Site:
    """Where everything is for one server: its own folder, its port, the backends' ports, issuer and keys."""

    folder: Path
    port: int
    spare_port: int
    backends: tuple[int, ...]
    issuer: str
    jwks: str
    shared: Path

    @property
    def certificate(self) -> Path:
        return self.shared / "tls.crt"

    @property
    def key(self) -> Path:
        return self.shared / "tls.key"


def nginx(site: Site) -> dict[str, str]:
    """Plain proxying, no authentication; uploads streamed, and answers that say X-Accel-Buffering: no."""
    backends = " ".join(f"server 127.0.0.1:{port};" for port in site.backends)
    temporary = " ".join(
        f"{kind}_temp_path {site.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"""
daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {site.folder}/pid; error_log stderr warn;
events {{ worker_connections {2 * CONNECTIONS}; }}
http {{
  access_log off; {temporary}
  upstream backends {{ least_conn; {backends} keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{site.port} ssl backlog=4096;
    ssl_certificate {site.certificate}; ssl_certificate_key {site.key}; ssl_protocols TLSv1.2 TLSv1.3;
    client_max_body_size 0; keepalive_requests 1000000; keepalive_timeout 300s;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr;
    proxy_read_timeout 300s; proxy_request_buffering off;
    location / {{ proxy_pass http://backends; }}
  }}
}}
"""
    return {"nginx.conf": text}


def haproxy(site: Site) -> dict[str, str]:
    """RS256 verified each time, expiry, the model read from the body."""
    servers = "\n".join(f"  server b{port} 127.0.0.1:{port} check inter 5s" for port in site.backends)
    bearer = "http_auth_bearer"
    text = f"""
global
  nbthread 1
  maxconn {CONNECTIONS}
defaults
  mode http
  timeout connect 2s
  timeout client 300s
  timeout server 300s
  timeout http-keep-alive 300s
  option http-keep-alive
frontend clients
  bind 127.0.0.1:{site.port} ssl crt {site.shared}/tls.pem alpn http/1.1 backlog 4096
  option http-buffer-request
  http-request set-var(txn.alg) {bearer},jwt_header_query('$.alg')
  http-request deny deny_status 401 unless {{ var(txn.alg) -m str RS256 }}
  http-request deny deny_status 401 unless {{ {bearer},jwt_verify(txn.alg,"{site.shared}/issuer.pem") -m int 1 }}
  http-request set-var(txn.exp) {bearer},jwt_payload_query('$.exp','int')
  http-request set-var(txn.now) date()
  http-request deny deny_status 401 if {{ var(txn.exp),sub(txn.now) -m int lt 0 }}
  acl chat path {CHAT_PATH}
  http-request deny deny_status 403 if chat !{{ req.body,json_query('$.model') -m str {MODEL} }}
  http-request deny deny_status 404 unless chat or {{ path {TENSOR_PATH} }}
  default_backend backends
backend backends
  balance leastconn
  http-reuse always
  option httpchk GET /v1/health/ready
{servers}
"""
    return {"haproxy.cfg": text}


def envoy(site: Site) -> dict[str, str]:
    """`jwt_authn` with the keys inline and its token cache; the body is not looked at."""
    config = {
        "static_resources": {
            "listeners": [
                {
                    "address": _address(site.port),
                    "filter_chains": [
                        {
                            "transport_socket": _typed(
                                "envoy.transport_sockets.tls",
                                "transport_sockets.tls.v3.DownstreamTlsContext",
                                common_tls_context={
                                    "alpn_protocols": ["http/1.1"],
                                    "tls_certificates": [
                                        {
                                            "certificate_chain": {"filename": str(site.certificate)},
                                            "private_key": {"filename": str(site.key)},
                                        }
                                    ],
                                },
                            ),
                            "filters": [_connection_manager(site)],
                        }
                    ],
                }
            ],
            "clusters": [_cluster(site)],
        }
    }
    return {"envoy.yaml": json.dumps(config, indent=1)}  # JSON is YAML


def apache(site: Site) -> dict[str, str]:
    """RS256 and expiry checked by the OpenID module at each call, group required; the body is not looked at."""
    modules = "\n".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in APACHE_MODULES.split()
    )
    members = "\n".join(f"  BalancerMember http://127.0.0.1:{port} flushpackets=on" for port in site.backends)
    text = f"""
{modules}
ServerRoot {site.folder}
DefaultRuntimeDir {site.folder}
PidFile {site.folder}/pid
ServerName localhost
Listen 127.0.0.1:{site.port}
ListenBacklog 4096
ErrorLog /dev/stderr
LogLevel warn
ServerLimit 1
StartServers 1
ThreadLimit 512
ThreadsPerChild 512
MaxRequestWorkers 512
MinSpareThreads 1
MaxSpareThreads 512
User www-data
Group www-data
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 300
ProxyTimeout 300
SSLEngine on
SSLCertificateFile {site.certificate}
SSLCertificateKeyFile {site.key}
SSLProtocol -all +TLSv1.2 +TLSv1.3
OIDCOAuthVerifyCertFiles {KEY_ID}#{site.shared}/issuer.pem
OIDCOAuthRemoteUserClaim sub
<Proxy balancer://backends>
{members}
  ProxySet lbmethod=bybusyness
</Proxy>
<Location />
  AuthType oauth20
  Require claim groups:data-science
  ProxyPass balancer://backends/
</Location>
"""
    return {"apache.conf": text}


def sglang(site: Site) -> dict[str, str]:
    """The arguments of the router, one a line: no TLS, no authentication, round robin, retries and checks on."""
    words = ["launch", "--host", "127.0.0.1", "--port", site.port, "--policy", "round_robin", "--log-level", "warn"]
    words += ["--prometheus-host", "127.0.0.1", "--prometheus-port", site.spare_port]
    words += ["--health-check-interval-secs", 5, "--health-check-endpoint", "/v1/health/ready"]
    words += ["--worker-urls", *(f"http://127.0.0.1:{port}" for port in site.backends)]
    return {"arguments": "\n".join(map(str, words))}


def litellm(site: Site) -> dict[str, str]:
    """One key, the model read from the body, least busy first, no TLS, no log."""
    deployments = [
        {
            "model_name": MODEL,
            "litellm_params": {
                "model": f"openai/{MODEL}",
                "api_base": f"http://127.0.0.1:{port}/v1",
                "api_key": "none",
            },
        }
        for port in site.backends
    ]
    config = {
        "model_list": deployments,
        "router_settings": {"routing_strategy": "least-busy"},
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": PASSWORD},
    }
    return {"litellm.yaml": json.dumps(config, indent=1), "port": str(site.port)}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _typed(name: str, kind: str, **fields: object) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": f"type.googleapis.com/envoy.extensions.{kind}", **fields}}


def _connection_manager(site: Site) -> dict[str, Any]:
    provider = {
        "issuer": site.issuer,
        "audiences": [AUDIENCE],
        "local_jwks": {"inline_string": site.jwks},
        "jwt_cache_config": {"jwt_cache_size": 100},
    }
    authentication = _typed(
        "envoy.filters.http.jwt_authn",
        "filters.http.jwt_authn.v3.JwtAuthentication",
        providers={"issuer": provider},
        rules=[{"match": {"prefix": "/"}, "requires": {"provider_name": "issuer"}}],
    )
    router = _typed("envoy.filters.http.router", "filters.http.router.v3.Router")
    host = {
        "name": "all",
        "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "backends", "timeout": "0s"}}],
    }
    return _typed(
        "envoy.filters.network.http_connection_manager",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="clients",
        codec_type="HTTP1",
        http_filters=[authentication, router],
        route_config={"virtual_hosts": [host]},
    )


def _cluster(site: Site) -> dict[str, Any]:
    endpoints = [{"endpoint": {"address": _address(port)}} for port in site.backends]
    most = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), 2 * CONNECTIONS)
    check = {
        "timeout": "2s",
        "interval": "5s",
        "unhealthy_threshold": 3,
        "healthy_threshold": 2,
        "http_health_check": {"path": "/v1/health/ready"},
    }
    return {
        "name": "backends",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "2s",
        "circuit_breakers": {"thresholds": [most]},
        "health_checks": [check],
        "load_assignment": {"cluster_name": "backends", "endpoints": [{"lb_endpoints": endpoints}]},
    }


def gateway(site: Site) -> dict[str, str]:
    """Everything on: tokens of the issuer, one policy, metrics, audit to a file, models read from bodies and paths."""
    backends = [{"url": f"http://127.0.0.1:{port}"} for port in site.backends]
    policy = {
        "version": 1,
        "rules": [
            {
                "id": "data-science",
                "effect": "allow",
                "subjects": {"groups": ["data-science"]},
                "models": [MODEL, TENSOR_MODEL],
                "operations": ["infer", "stream"],
            }
        ],
    }
    config = {
        "listen": {
            "address": "127.0.0.1",
            "port": site.port,
            "tls": {"certificate": str(site.certificate), "key": str(site.key)},
        },
        "management": {"address": "127.0.0.1", "port": site.spare_port},
        "identity": {
            "oidc": [{"name": "bench", "issuer": site.issuer, "audience": [AUDIENCE], "algorithms": ["RS256"]}]
        },
        "policies": str(site.folder / "policies"),
        "pools": [
            _pool("chat", "openai", MODEL, backends, "/v1/health/ready"),
            {**_pool("tensors", "kserve", TENSOR_MODEL, backends, "/v2/health/ready"), "max_body": "512MiB"},
        ],
        "limits": {"timeouts": {"pre_stop": "1ms", "drain": "1s", "keep_alive": "300s"}},
        "audit": {"file": str(site.folder / "audit.jsonl")},
    }
    return {"gateway.yaml": json.dumps(config, indent=1), "policies/bench.yaml": json.dumps(policy, indent=1)}


def floor(site: Site) -> dict[str, str]:
    """The arguments of `bench.floor`, one a line."""
    return {"arguments": "\n".join(map(str, (site.certificate, site.key, site.port, *site.backends)))}


def _pool(name: str, protocol: str, model: str, backends: list[dict[str, str]], ready: str) -> dict[str, Any]:
    return {
        "name": name,
        "protocols": [protocol],
        "models": [{"name": model}],
        "balance": "least_connections",
        "backends": backends,
        "health": {"path": ready, "interval": "5s", "timeout": "2s", "fall": 3, "rise": 2},
    }
