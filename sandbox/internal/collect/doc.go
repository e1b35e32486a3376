// Package collect takes what a command left in its private directories: files to
// give back, and how full the directories are.
//
// The names in there are chosen by the command, which may have made them to lead
// the reader astray. Everything is opened beneath a directory descriptor, without
// following links, and looked at only after it was opened.
package collect
