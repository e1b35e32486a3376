package toolfile

import (
	"fmt"
	"io"

	"haft/internal/terminal"
	"haft/schema"
)

// Warn prints what should be better in the source of a file.
func Warn(w io.Writer, file string, list []*schema.SourceError) {
	for _, e := range list {
		e.File = file
		fmt.Fprintln(w, terminal.Paint(w, terminal.Yellow, "warning:"), terminal.Safe(w, e.Error()))
	}
}
