// Package oauth exchanges credentials for access tokens, outside of sandboxes.
//
// A [Client] speaks two grants of RFC 6749: client credentials (4.4) and refresh
// tokens (6). It keeps a token for as long as the server says that it is good, in
// memory and nowhere else, and asks once however many callers want it.
//
//	caller          Client                       token endpoint
//	  │── Ask ───────►│                                 │
//	  │               │── POST, form, client secret ───►│
//	  │               │◄── access token, expires_in ────│
//	  │               │    (refresh token: Rotated is called first)
//	  │◄── Token ─────│
//
// # Guarantees
//
//   - The endpoint is asked over https, through the given client, which restricts the
//     addresses. Redirects are not followed.
//   - Answers are bounded, and nothing of them but a registered error code is in an
//     error.
//   - An exchange that has begun is finished even if its caller has left: the server may
//     have replaced the refresh token by then, and the new one would be lost.
package oauth
