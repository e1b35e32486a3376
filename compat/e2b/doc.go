// Package e2b serves the API of E2B's sandboxes to E2B's own clients.
//
//	E2B_API_URL      http://HOST/e2b           create, list and end sandboxes          control.go
//	E2B_SANDBOX_URL  http://HOST/e2b/sandbox   what a client does in one sandbox:
//	                   port 49983, envd        commands, files, changes of files       process.go, files.go, watch.go
//	                   port 49999              code with variables, in contexts        code.go
//	                   other ports             what listens in the sandbox             port.go
//
// A sandbox is a session of its creator, and every command is a call of run_command: the package
// translates, and what somebody may do is decided where it is decided for sessions and calls.
//
// A request to the control API has a key of Haft. A request to a sandbox has the token of the
// sandbox, which its creator got, and is made on behalf of its creator.
package e2b
