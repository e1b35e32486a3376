package shell

import (
	"slices"
	"strings"
)

// RunsCode reports whether a program, by its name without a directory, is a shell or an
// interpreter, which runs any code that it is given.
func RunsCode(name string) bool {
	name = strings.ToLower(name)
	if end := strings.IndexAny(name, "0123456789."); end > 0 { // python3.12, perl5.36-x86_64-linux-gnu
		name = name[:end]
	}
	return slices.Contains([]string{"sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh",
		"busybox", "toybox", "python", "pypy", "node", "nodejs", "deno", "bun", "npx", "perl", "ruby", "php", "lua",
		"luajit", "tclsh", "expect", "rscript", "guile", "awk", "gawk", "mawk", "nawk", "original-awk", "env", "make",
		"gmake", "java", "jshell", "gdb", "vi", "vim", "emacs"}, strings.TrimRight(name, "-"))
}
