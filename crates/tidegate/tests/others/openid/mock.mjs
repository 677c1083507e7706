// `oauth2-mock-server`: a small provider with keys of another kind. Argument: port.
import { OAuth2Server } from "oauth2-mock-server";

const server = new OAuth2Server();
await server.issuer.keys.generate("RS256");
server.service.on("beforeTokenSigning", token => {
    Object.assign(token.payload, { aud: "tidegate", email: "alice@example.com" });
});
await server.start(Number(process.argv[2]), "127.0.0.1");
server.issuer.url = `http://127.0.0.1:${process.argv[2]}`;
console.log("listening");
