package policy

import (
	"errors"
	"path"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// maxPath is how long a path may be: PATH_MAX of Linux.
const maxPath = 4096

// errPath says that a path cannot be judged. The rule that asks then denies, whatever
// its effect, so that neither "must be under" nor "must not be under" can be passed
// with a path that means another directory than it says.
var errPath = errors.New("its expression looks at a path that is relative, too long, or has .. in it: give an " +
	"absolute path without")

// pathFunctions declares path.under(path, directory): whether an absolute path is the
// directory or lies below it. It compares elements, so that "/tmpfoo" is not under
// "/tmp". A ".." makes the path one that cannot be judged even where it would end up
// inside: with a symbolic link before it, the kernel goes elsewhere than the text does.
func pathFunctions() cel.EnvOption {
	return cel.Function("path.under", cel.Overload(underOverload,
		[]*cel.Type{cel.StringType, cel.StringType}, cel.BoolType, cel.BinaryBinding(pathUnder)))
}

// underOverload is what CEL calls the one form of path.under.
const underOverload = "path_under_string_string"

// pathCosts makes path.under cost as much as the standard functions that read a text:
// a unit for ten characters.
func pathCosts() cel.ProgramOption {
	return cel.CostTrackerOptions(interpreter.OverloadCostTracker(underOverload,
		func(args []ref.Val, _ ref.Val) *uint64 {
			units := uint64(1)
			for _, a := range args {
				if text, ok := a.Value().(string); ok {
					units += uint64(min(len(text), maxPath) / 10)
				}
			}
			return &units
		}))
}

// pathUnder implements path.under.
func pathUnder(p, dir ref.Val) ref.Val {
	file, ok := p.Value().(string)
	below, okDir := dir.Value().(string)
	if !ok || !okDir || !plainPath(file) || !plainPath(below) {
		return types.WrapErr(errPath)
	}
	file, below = path.Clean(file), path.Clean(below)
	return types.Bool(file == below || below == "/" || strings.HasPrefix(file, below+"/"))
}

// plainPath reports whether a path means what its text says.
func plainPath(p string) bool {
	return len(p) <= maxPath && path.IsAbs(p) && !strings.Contains(p, "\x00") &&
		!slices.Contains(strings.Split(p, "/"), "..")
}
