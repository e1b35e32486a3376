// Package bashschema reads the signature of a tool from the comment at the head
// of a shell script, without running it.
//
// # The header
//
// The first block of comment lines after the shebang describes the tool:
//
//	#!/usr/bin/env bash
//	# tool: disk_usage
//	# Shows how much space a directory takes.
//	#
//	# Longer text may follow.
//	#
//	# Args:
//	#   path (string): Directory to look at.
//	#   depth (integer, 1..10, default 1): How deep to look.
//	#   mode (enum: fast|full, default fast): Whether to count every file.
//	#   skip (array of string, optional): Names to leave out.
//	#
//	# Returns:
//	#   json: Sizes in bytes, by name.
//
// The words in brackets are the type (string, integer, number, boolean, object,
// any, enum: a|b, array of T), then in any order "required", "optional",
// "default V", "format F", a range "A..B", "A.." or "..B" (of numbers, of the
// length of strings and arrays), "pattern P" last. A parameter is required unless it is
// optional or has a default. A description may go on in deeper indented lines.
// Returns names how the output is read, json, text, number, boolean or list,
// and says what it is.
//
// Without "tool:" the name is Config.DefaultName, such as that of the file.
//
// # How arguments reach the script
//
// Arguments are data. They are never put into the text of the script or on its
// command line; they are in its environment, where no quoting can go wrong:
//
//	ARG_<NAME>   each argument, its name in upper case: a string as it is, a
//	             number in decimal, a boolean as true or false, null as the
//	             empty text, an array or an object as JSON
//	HAFT_ARGS    the path of a file with all arguments as one JSON object
//
// An argument that was not given has no variable: "${ARG_DEPTH:-1}" shows how to give it a default. The
// agent's id is in HAFT_AGENT_ID. The value of the tool is what the script
// writes to its standard output; it fails with its exit status.
package bashschema
