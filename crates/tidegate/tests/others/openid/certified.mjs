// `oidc-provider` (OpenID certified), with nobody to ask: whoever comes is Alice, and consents. Refresh tokens rotate, and
// one that comes a second time ends its grant. Arguments: port, redirect address, address after a log-out, back channel.
import Provider from "oidc-provider";

const [port, redirect, after, backChannel] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
    clients: [{
        client_id: "tidegate", client_secret: "s3cret & +%", redirect_uris: [redirect], post_logout_redirect_uris: [after],
        grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
        backchannel_logout_uri: backChannel, backchannel_logout_session_required: true,
    }],
    claims: { openid: ["sub"], email: ["email"], profile: ["groups"] },
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, groups: ["staff"] }) }),
    features: {
        devInteractions: { enabled: false },
        backchannelLogout: { enabled: true },
        rpInitiatedLogout: {
            enabled: true,
            logoutSource: (context, form) => {
                context.body = `${form}<script>const form = document.forms[0];
                    form.insertAdjacentHTML("beforeend", '<input name="logout" value="yes">'); form.submit()</script>`;
            },
        },
    },
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    rotateRefreshToken: true,
    ttl: { AccessToken: 3, IdToken: 300, RefreshToken: 600, Session: 600, Grant: 600, Interaction: 60, AuthorizationCode: 30 },
    cookies: { keys: ["for the test"] },
    pkce: { required: () => true },
});
provider.use(async (context, next) => {
    if (!context.path.startsWith("/interaction/")) return next();
    const details = await provider.interactionDetails(context.req, context.res);
    const { prompt, params, session } = details;
    if (prompt.name === "login") {
        return provider.interactionFinished(context.req, context.res, { login: { accountId: "alice" } });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope("openid profile email");
    return provider.interactionFinished(context.req, context.res, { consent: { grantId: await grant.save() } });
});
for (const fault of ["server_error", "grant.error", "backchannel.error"]) {
    provider.on(fault, (...what) => console.log(fault, what.map(one => one?.error_description ?? one?.message).filter(Boolean)));
}
provider.on("backchannel.success", () => console.log("back channel told"));
provider.on("grant.success", context => console.log("grant", context.oidc.params.grant_type));
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
