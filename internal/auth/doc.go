// Package auth turns a credential into a [haft.Principal]; no other package does.
// Credentials are compared here, in constant time.
//
// An API makes a [Credential] of what it was sent and asks an [Authenticator],
// which gives an [Identity]: the principal, and what the credential may do. What
// is not understood, not known or not allowed is refused. There are three kinds:
//
//	Authorization: Bearer haft_ID_SECRET            an API key
//	Authorization: Bearer HEADER.CLAIMS.SIGNATURE   a token of an OIDC issuer
//	Authorization: HAFT-HMAC-SHA256 key=ID,…        a request signed with an API key
//
// # API keys
//
// A key is "haft_", an id of 12 characters, "_", and a secret of 40 characters
// (200 random bits) with a checksum of 7 (CRC-32 of all before it), all of them
// a-z and 2-7. So scanners recognise a key ([KeyPattern]), and can distinguish a typing
// error from a wrong key without a request. The id is public. The secret is shown once,
// when it is made ([Token]).
//
// At rest there is HMAC-SHA-256 of the key under a pepper that is not in the
// database. It is not bcrypt or argon2 because these are slow to make guessing
// slow, and 200 random bits cannot be guessed at any speed: slowness would cost every
// request and let clients with wrong keys overload the server. The pepper prevents that an
// attacker who can write to the database, but not read the pepper, adds a key.
//
// # Signed requests
//
// A signed request never carries the secret: it cannot be read from a log of a
// proxy, and it cannot be changed or sent again. The signature is made so:
//
//	signing key = HMAC-SHA-256(key: the whole API key, message: "haft request signing 1")
//	signature   = HMAC-SHA-256(key: signing key, message: text)
//
//	text = "HAFT-HMAC-SHA256" LF
//	       id of the key      LF
//	       time               LF    seconds since 1970, decimal, no sign, no leading 0
//	       nonce              LF    16 to 64 of A-Z a-z 0-9 - _
//	       method             LF    as sent: GET, POST
//	       target             LF    path and query as in the request line, not decoded
//	       body                     SHA-256 of the body, 64 lower-case hex digits
//
// LF is the one byte 0x0A, there is none at the end, and no part can hold one. The
// header is one line, with these parts in this order and one space in it:
//
//	Authorization: HAFT-HMAC-SHA256 key=ID,time=TIME,nonce=NONCE,body=BODY,signature=SIGNATURE
//
// The signature is 64 lower-case hex digits. [Sign] does it. The signing key is at
// rest too, sealed under the pepper: a signature is checked with what it is made
// with, so a hash would not do. It does not give the key back.
//
//	client                      server                     authenticator
//	  │── header, then body ────►│── Admit(request) ────────►│ known key? time near?
//	  │                          │                           │ signature right?
//	  │                          │                           │ nonce new? remember it
//	  │                          │◄── Identity, Body ────────│
//	  │                          │── reads the body to its end: digest right?
//	  │◄── 401, or the answer ───│
//
// Not signed are the host and the headers, so an API acts on no header that would
// change what is done, other than Idempotency-Key, which cannot make more of a
// request.
//
// # Tokens of issuers
//
// [Issuer] says which issuers are accepted, and which of their claims count. Their keys
// are found by discovery and fetched with a client that the caller restricts. RS256,
// ES256 and EdDSA are known, and no other algorithm: not "none", none with a shared
// secret, no encryption or compression. Keys that a token brings along (jwk, jku,
// x5c, x5u) are never used.
//
// go-oidc does the discovery, go-jose reads keys and checks signatures and times. What
// they would let through is refused before they see it: names that stand twice, base64
// that is not canonical, tokens of other types, answers that are too large. They keep
// no keys either: [Issuer] says for how long these are good.
//
// # Guarantees
//
//   - A refusal says [haft.CodeUnauthenticated] and one text, whatever the reason.
//     [ReasonOf] is for the operator. Unknown, wrong, expired and disabled keys
//     take the same steps: one look at the backend, the same hashes, the same
//     compares.
//   - Too many failures from one address are answered with [haft.CodeRateLimited]. Valid
//     credentials from the same address are still accepted.
//   - A key may do what its roles allow and its scope includes. A key never may do more
//     than the credential that it is made with ([Identity.MayIssue]).
//   - All that is kept of callers has a bound.
//
// Not promised: that a stolen bearer token is of no use; that a signed request is
// not sent to two processes at once, unless they share a [Nonces]; and that one
// that was signed by a clock ahead of ours cannot be sent again within [Config.Skew]
// after a restart, if nonces are kept in memory.
package auth
