// Package app connects the packages of Haft to a system, and does nothing else.
//
//	[Open]         an [App]: a sandbox, interpreters, packages; for calls of source code
//	[OpenService]  a [Service]: an App with a store and an engine
//	[OpenServer]   a [Server]: a Service with the HTTP APIs
//
// Besides cmd/haft it is the only package that reads the environment.
package app
