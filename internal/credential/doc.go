// Package credential asks a service of the operator for the credentials of a call.
//
// A [Client] posts who calls what to one address and gets back the variables that
// the tool is to see:
//
//	POST /credentials
//	Content-Type: application/json
//	Authorization: Bearer KEY                            if there is a key
//	X-Haft-Timestamp: 1763208000                         seconds since 1970, if there is a signing key
//	X-Haft-Signature: v1=HEX                             HMAC-SHA256 of "TIMESTAMP.BODY"
//
//	{"organization_id":"acme","user_id":"ann","agent_id":"ag_1","tool_name":"deploy","tool_id":"t_1","call_id":"c_1"}
//
//	200 OK
//	Cache-Control: max-age=60                            no-store, or nothing for the configured time
//
//	{"API_KEY":"…","REGION":"eu"}
//
// Body and answer are those of Letta's sandbox credentials webhook, with more
// fields. A null means that there is no such variable. The receiver checks a
// signature with [Verify], or the same in its own language: compare in constant
// time, and refuse old timestamps.
//
// Answers are bounded, never follow a redirect, and are kept in memory for as long
// as they say, within bounds. Callers who ask the same at the same time share one
// request. A failure is kept for a moment too, so that a service that is down is
// not asked by every call. Nothing of an answer or of the address is in an error.
package credential
