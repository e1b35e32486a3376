// Package hostpath opens paths of the host that somebody else has named, such as the
// mounts of an MCP server, and decides whether they may be shown to a sandbox.
//
// What a path leads to can change between two lookups. So a path is opened once, without
// following symbolic links ([Open]). All decisions are about the open descriptor
// ([Guard.Check], [Path.Real]), and the sandbox binds that descriptor
// (sandbox.Mount.File). There is no second lookup by name.
//
// The checks by descriptor are Linux only. Elsewhere there is no sandbox that mounts
// anything; paths are compared as the file system names them.
package hostpath

import (
	"os"
	"path"

	"haft"
)

// A Path is a file or directory of the host that is open. Close its File.
type Path struct {
	// File refers to it and can neither read nor write (O_PATH).
	File *os.File
	// Real is its path without any symbolic link, as the kernel names it.
	Real string
	// Dir says that it is a directory. Else it is a regular file.
	Dir bool
	// Shared says that it is a file with several names (hard links), any of which may
	// belong to another user.
	Shared bool
}

// A Guard knows what is never shown to a sandbox, under any name.
type Guard struct {
	// Dirs are directories of which neither they, nor anything in them, nor any
	// directory that contains them is shown. Those that do not exist yet count.
	Dirs []string
	// Files are single files, which are not shown, nor any directory that contains
	// them.
	Files []string
}

// denied refuses a path that may not be shown.
func denied(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }

// The refusals. None names a path: the caller knows which one it was, and need not learn
// where Haft keeps its files.
const (
	isLink = "the path leads through a symbolic link: name the directory itself"
	isOwn  = "the path is, contains or lies in a directory of Haft's own data, keys, caches or locks, which are " +
		"never mounted"
	isKernel = "the path shows the kernel's own file systems, such as /proc or /sys, which are never mounted"
	isOdd    = "the path is neither a directory nor a regular file"
	hasMoved = "the path was moved or removed while it was opened; try again"
)

// CheckName refuses what is not a clean absolute path below the root.
func CheckName(name string) error {
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || len(name) > 1024 {
		return &haft.Error{Code: haft.CodeInvalid, Message: "a path of the host is clean, absolute and below the root"}
	}
	return nil
}

// missing is for a path that does not lead anywhere.
func missing(err error) error {
	return &haft.Error{Code: haft.CodeNotFound, Err: err,
		Message: "there is no such directory or file on the host, or it may not be opened"}
}
