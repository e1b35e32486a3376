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
//	  │               │    (refresh token: Rotated is told before anybody else)
//	  │◄── Token ─────│
//
// # What is promised
//
//   - The endpoint is asked over https, through the client that is given: where it
//     may lead is that client's to decide. Redirects are not followed.
//   - Answers are bounded, and nothing of them but a registered error code is in an
//     error.
//   - An exchange that has begun is not given up because who asked for it left: a
//     server may have replaced a refresh token by then, and it would be lost.
package oauth
