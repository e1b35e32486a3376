// Package app puts one system together from one [Config]: a sandbox, the
// interpreters of this machine, the readers of source code and the executor of
// scripts.
//
// [Open] gives an [App]; [App.Prepare] turns source code into a tool that can be
// called; [App.Call] takes one call of it through its stages:
//
//	read → validate → execute → check
//
// It is the only package that reads the environment.
package app
