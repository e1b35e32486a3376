// Package filter compiles the lists of system calls that confined programs may
// make into seccomp programs.
//
// What is not on the list does not work. Most of it answers EPERM or ENOSYS, so
// that runtimes that merely try their luck go on; what no honest program asks
// for, and foreign ABIs, kill the process.
package filter
