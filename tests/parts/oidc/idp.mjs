// An OpenID provider for the tests: panva's certified oidc-provider with users, clients and resources of ours.
//
// Environment: PORT; for TLS, where clients may show certificates, also TLS_CERT and TLS_KEY; CLIENT_JWK, the public key of the
// client that asks about tokens with a key. Standard paths are the library's; ours stand under /test/:
//   POST /test/rotate        new signing keys, the old ones stay published behind them
//   POST /test/rotate?drop=1 new signing keys, the old ones are gone at once
//   POST /test/ttl?s=N       life of the access tokens issued from now on, in seconds
//   POST /test/device-ttl?s=N how long a code for a device may wait to be typed
//   GET  /test/stats         how often the key set and the discovery document were fetched
// A user logs in by naming himself in `login_hint`, in the field X-Test-User where a device asked, else in a form;
// consent is given to everything that is asked for.
// LOGIN_BACKS: where browsers of the client `pages` may be sent back to, parted by spaces.
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { readFileSync } from 'node:fs';
import { generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto';
import Provider, { errors } from 'oidc-provider';

const port = Number(process.env.PORT);
const tls = process.env.TLS_CERT ? { cert: readFileSync(process.env.TLS_CERT), key: readFileSync(process.env.TLS_KEY), requestCert: true, rejectUnauthorized: false } : null;
const issuer = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;

const GROUPS = { alice: ['data-science', 'llm-users'], bob: ['guests'], carol: [] };
const SERVICE_GROUPS = ['services'];
const AUDIENCE = 'nim-gateway';
const jwt = (audience, alg) => ({ audience, accessTokenFormat: 'jwt', jwt: { sign: { alg } }, scope: 'infer' });
const RESOURCES = {
  'urn:tests:rs256': jwt(AUDIENCE, 'RS256'),
  'urn:tests:es256': jwt(AUDIENCE, 'ES256'),
  'urn:tests:elsewhere': jwt('another-api', 'RS256'),
  'urn:tests:opaque': { audience: AUDIENCE, accessTokenFormat: 'opaque', scope: 'infer' },
};
const secret = process.env.CLIENT_SECRET ?? randomBytes(16).toString('hex');
const CLIENTS = [
  { client_id: 'service', client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
  { client_id: 'certified', client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [], tls_client_certificate_bound_access_tokens: true },
  { client_id: 'proving', client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [], dpop_bound_access_tokens: true },
  {
    client_id: 'app', token_endpoint_auth_method: 'none', application_type: 'native',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], redirect_uris: ['http://127.0.0.1:9/back'],
  },
  {
    client_id: 'cli', token_endpoint_auth_method: 'none', application_type: 'native',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code'], response_types: [], redirect_uris: [],
  },
  { client_id: 'pages', client_secret: secret, redirect_uris: (process.env.LOGIN_BACKS ?? 'https://localhost/back').split(' ') },
  { client_id: 'introspector', client_secret: secret, grant_types: [], redirect_uris: [], response_types: [] },
  ...(process.env.CLIENT_JWK ? [{
    client_id: 'introspector-with-key', token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [JSON.parse(process.env.CLIENT_JWK)] },
    grant_types: [], redirect_uris: [], response_types: [],
  }] : []),
];

let lifetime = 7200;
let deviceLifetime = 600;
let made = 0;
const fetches = { jwks: 0, discovery: 0 };

function signingKey(alg) {
  const pair = alg === 'RS256' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  made += 1;
  return { ...pair.privateKey.export({ format: 'jwk' }), kid: `${alg.toLowerCase()}-${made}`, alg, use: 'sig' };
}
const freshKeys = () => [signingKey('RS256'), signingKey('ES256')];

// The key set is fixed when a Provider is built, so a rotation builds a new one; what was issued lives on in here.
const rows = new Map();
class Shelf {
  constructor(kind) { this.kind = kind; }
  at(id) { return `${this.kind} ${id}`; }
  live(row) { return row && row.until > Date.now() ? row.payload : undefined; }
  async upsert(id, payload, seconds) { rows.set(this.at(id), { payload, until: seconds ? Date.now() + seconds * 1000 : Infinity }); }
  async find(id) { return this.live(rows.get(this.at(id))); }
  async destroy(id) { rows.delete(this.at(id)); }
  async consume(id) { const payload = await this.find(id); if (payload) payload.consumed = Math.floor(Date.now() / 1000); }
  async first(field, value) {
    for (const [name, row] of rows) if (name.startsWith(`${this.kind} `) && row.payload[field] === value) return this.live(row);
    return undefined;
  }
  async findByUid(uid) { return this.first('uid', uid); }
  async findByUserCode(code) { return this.first('userCode', code); }
  async revokeByGrantId(grant) { for (const [name, row] of rows) if (row.payload.grantId === grant) rows.delete(name); }
}

async function consentTo(provider, details) {
  const { params, session, prompt, grantId } = details;
  const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const missing = prompt.details;
  if (missing.missingOIDCScope) grant.addOIDCScope(missing.missingOIDCScope.join(' '));
  if (missing.missingOIDCClaims) grant.addOIDCClaims(missing.missingOIDCClaims);
  for (const [resource, scopes] of Object.entries(missing.missingResourceScopes ?? {})) grant.addResourceScope(resource, scopes.join(' '));
  return { consent: { grantId: await grant.save() } };
}

const FORM = `<!doctype html><html lang="en"><title>Log in at the provider</title><link rel="icon" href="data:,"><h1>The provider</h1>
<form method="post"><label for="user">User</label> <input id="user" name="user"> <button>Go on</button> <button name="stop" value="yes">Stop</button></form>`;

// What a user answers to the question who they are; undefined while they have not.
async function loginOf(request, hint) {
  if (hint) return { login: { accountId: String(hint) } };
  if (request.method !== 'POST') return undefined;
  let body = '';
  for await (const piece of request) body += piece;
  const form = new URLSearchParams(body);
  return form.get('stop') ? { error: 'access_denied', error_description: 'the user stopped' } : { login: { accountId: form.get('user') } };
}

// The certificate a client showed, in PEM: it need not be anybody's who is known here.
function certificateOf(ctx) {
  const shown = ctx.socket.getPeerCertificate?.();
  return shown?.raw ? new X509Certificate(shown.raw).toString() : undefined;
}

function build(keys) {
  const provider = new Provider(issuer, {
    adapter: Shelf,
    clients: CLIENTS,
    jwks: { keys },
    cookies: { keys: [secret] },
    scopes: ['openid', 'offline_access', 'infer'],
    claims: { openid: ['sub'], groups: ['groups'] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true },
      dPoP: { enabled: true },
      mTLS: { enabled: true, certificateBoundAccessTokens: true, getCertificate: certificateOf },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, uri) => {
          if (!RESOURCES[uri]) throw new errors.InvalidTarget();
          return { ...RESOURCES[uri], accessTokenTTL: lifetime };
        },
      },
    },
    ttl: { AccessToken: () => lifetime, ClientCredentials: () => lifetime, DeviceCode: () => deviceLifetime, Grant: 7200, Interaction: 600, Session: 7200, IdToken: 300, RefreshToken: 3600 },
    extraTokenClaims: (_, token) => ({ groups: token.accountId ? GROUPS[token.accountId] : SERVICE_GROUPS }),
    findAccount: (_, id) => (id in GROUPS ? { accountId: id, claims: () => ({ sub: id, groups: GROUPS[id] }) } : undefined),
    interactions: { url: (_, interaction) => `/login/${interaction.uid}` },
  });
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/login/')) return next();
    const details = await provider.interactionDetails(ctx.req, ctx.res);
    const result = details.prompt.name === 'login' ? await loginOf(ctx.req, details.params.login_hint ?? ctx.get('x-test-user')) : await consentTo(provider, details);
    if (!result) { ctx.type = 'html'; ctx.body = FORM; return undefined; }
    await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: true });
    ctx.respond = false;
    return undefined;
  });
  return provider.callback();
}

let keys = freshKeys();
let answer = build(keys);
const KNOBS = {
  '/test/rotate': (query) => {
    keys = query.get('drop') ? freshKeys() : [...freshKeys(), ...keys];
    answer = build(keys);
    return keys.map((key) => key.kid);
  },
  '/test/ttl': (query) => { lifetime = Number(query.get('s')); return lifetime; },
  '/test/device-ttl': (query) => { deviceLifetime = Number(query.get('s')); return deviceLifetime; },
  '/test/stats': () => fetches,
};
const COUNTED = { '/jwks': 'jwks', '/.well-known/openid-configuration': 'discovery' };

function serve(request, response) {
  const url = new URL(request.url, issuer);
  const knob = KNOBS[url.pathname];
  if (knob) { response.end(JSON.stringify(knob(url.searchParams))); return; }
  if (url.pathname in COUNTED) fetches[COUNTED[url.pathname]] += 1;
  answer(request, response);
}

(tls ? createTlsServer(tls, serve) : createServer(serve)).listen(port, '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
