package shell

import (
	"slices"
	"strings"
)

// RunsCode reports whether a program, by its name without a directory, is a shell or an
// interpreter, which runs any code that it is given.
func RunsCode(name string) bool {
	name = strings.TrimRight(strings.ToLower(name), "0123456789.-")
	return slices.Contains([]string{"sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh",
		"busybox", "toybox", "python", "pypy", "node", "nodejs", "deno", "bun", "npx", "perl", "ruby", "php", "lua",
		"luajit", "tclsh", "expect", "rscript", "guile"}, name)
}
