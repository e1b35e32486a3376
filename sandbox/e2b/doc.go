// Package e2b runs commands in machines of E2B, or of a server that speaks its API. Package rented does the work; here
// is the API of the server (control.go), and that of a machine (envd.go).
//
// A machine lives for a short time only, which is extended while it is used.
//
// What E2B does to confine a machine cannot be seen from here. So the level is stated, and no control.
package e2b
