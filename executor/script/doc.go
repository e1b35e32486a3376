// Package script runs tools that are source code (Python, JavaScript, TypeScript
// and Bash) in a sandbox, one call in one process.
//
// Inside the sandbox a harness, embedded here, loads the source as a module,
// turns the arguments into what the parameters are annotated as, calls the
// function and writes its value as JSON by the rule of package value. Harness and
// host talk over a socket pair that is descriptor 3 of the harness:
//
//	host                               harness
//	  │                                   │ interpreter is up
//	  │ ◄──────────────── {"type":"hello"}┤
//	  │ {"type":"warm"} ─────────────────►│ only for a cell that becomes idle
//	  │ ◄──────────────── {"type":"ready"}┤
//	  │ {"type":"read","data":…} ────────►│ may come first: the source is parsed,
//	  │ ◄──────── {"type":"read","value":…}┤ and nothing of it is run
//	  │ {"type":"source","source":…} ────►│ compiles, and runs nothing of it
//	  │ {"type":"call","args":…} ────────►│ loads, converts, runs, encodes
//	  │ ◄─{"type":"result","value":…} ────┤ or {"type":"error","kind":…}
//	  │ ◄───────────────────── end of file┤ the harness shuts its side down
//	  │ kills whatever still runs         ╵
//
// A message is framed by its length: four bytes, big-endian, then that many bytes
// of JSON. Each is bounded, the answer by Limits.Result.
//
// Source and call come together, or the source ahead, while the host still writes
// down that there will be a call (see [Executor.Prepare]); an idle cell has
// the likely one already. Node.js gets both in one message.
//
// # What the channel promises
//
// The tool's code shares a process with the harness and can write to the channel
// itself. That gains it nothing but the result of its own call, which is its own
// to choose anyway: the channel belongs to this call alone, and nothing but a
// value that was checked as JSON comes of it. Exactly one answer, valid, complete
// and followed by the end of the stream is a result. Two, none, half of one, or
// anything else is [haft.FailProtocol]. Standard output carries nothing but text.
// Programs that the tool starts do not inherit the channel.
//
// # Bash
//
// A shell script has no function to call. Its arguments are the variables
// ARG_<NAME>, names in upper case and what is no letter or digit as _; strings as
// they are, everything else as JSON. All of them are also in the file that
// $HAFT_ARGS names. Its value is what it prints, read as the declared output type;
// or, if it writes anything to the descriptor $HAFT_RESULT, that, read as JSON:
//
//	echo '{"sum": 3}' >&$HAFT_RESULT
//
// A status other than 0 is a failure.
//
// # Network
//
// With [sandbox.NetworkEgress] the only address that answers is the egress proxy of the
// call, and the usual variables (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, in both cases)
// lead programs there; $SOCKS_PROXY is the same by SOCKS. If the request brings
// certificates, they are in a file with those of the system, which the usual
// variables name (SSL_CERT_FILE and its like). In Node.js, fetch and the modules
// http and https are led there whatever their version; http2 and plain sockets are
// not. Names are not looked up inside: a program has to leave that to the proxy.
//
// # Output
//
// Stdout and Stderr of a [haft.Result] are valid UTF-8: what is not is replaced by
// U+FFFD, and so is NUL. Escape sequences are left in: a program
// that prints them to a terminal has to escape them.
//
// Start with [NewFinder] and [New].
package script
