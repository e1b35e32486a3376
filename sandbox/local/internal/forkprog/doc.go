// Package forkprog compiles what a template does for one fork into a table of system calls, and has the machine code
// that makes them.
//
// Each page that a fork writes to is copied, and an interpreter writes to a page when it only looks at an object. When
// the steps of a fork were carried out in Python, 60 system calls cost some 250 page faults and half a millisecond of
// Python, before the call could begin. So the steps are a table of numbers ([Op]), and one function of machine code
// ([Code]), which knows nothing of Python, walks through it: a template calls it once, and it returns in each fork.
//
// The table is compiled for the addresses at which the template keeps it ([Areas]), so that it needs no linking there.
// The code decides nothing: what is called, which result is an error and what comes next are in the table.
package forkprog
