// Package plan holds the list of steps that confines a process, as data.
//
// The parent builds a [Plan], where errors are easy to handle and the result
// can be looked at; the process to be confined carries it out, one system call
// after the other, and reports the first step that fails. Two executors exist:
// [Plan.Do] for the init that is a re-executed Haft, and the few lines of
// Python that a forked interpreter runs. Both do exactly what the list says.
package plan
