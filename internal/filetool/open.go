package filetool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"haft"
	"haft/executor/builtin"
	"haft/internal/workspace"
)

// How many files are opened at once, and how many bytes are shown of each.
const (
	maxOpen = 5
	maxView = 20_000
)

type openIn struct {
	Files []openRequest `json:"file_requests" jsonschema:"The files to open, at most 5, each with an optional view range."`
	Close bool          `json:"close_all_others,omitempty" jsonschema:"Accepted for Letta: what this call returns is all that is open."`
}

// An openRequest is a file of which lines are shown.
type openRequest struct {
	Name   string `json:"file_name" jsonschema:"The path of the file, as list_files shows it."`
	Offset *int   `json:"offset,omitempty" jsonschema:"The number of the first line to show (1-indexed). Without it the file is shown from its beginning."`
	Length *int   `json:"length,omitempty" jsonschema:"How many lines to show. Without it, as many as fit."`
}

// addOpen adds the tool that shows files.
func (t tools) addOpen(s *builtin.Set) error {
	d := def("open_files", "Open one or more files of your workspace, at most 5, and return their lines with numbers. "+
		"Use offset and length to see a part of a large file. The view is in the result of this call only: open the "+
		"file again to see what has changed.", true)
	d.Settings.Output = haft.Output{MaxChars: 3 * haft.DefaultMaxChars}
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in openIn) (string, error) {
		switch n := len(in.Files); {
		case n == 0:
			return "", invalid("No file requests provided")
		case n > maxOpen:
			return "", invalid("Cannot open %d files: exceeds configured maximum limit of %d files", n, maxOpen)
		}
		var out strings.Builder
		err := t.read(ctx, c, func(ctx context.Context, tree *workspace.Tree) error {
			for i, r := range in.Files {
				if err := r.show(ctx, tree, &out); err != nil {
					return at(i, err)
				}
			}
			return nil
		})
		return out.String(), err
	})
}

// at says which request an error is about.
func at(i int, err error) error {
	h, ok := errors.AsType[*haft.Error](err)
	if !ok {
		return err
	}
	message := fmt.Sprintf("file_requests[%d]: %s", i, h.Message)
	if h.Code == haft.CodeNotFound {
		message += " - did you get the filename correct? See list_files"
	}
	return &haft.Error{Code: h.Code, Message: message, Err: err}
}

// show writes the lines that are asked for.
func (r openRequest) show(ctx context.Context, tree *workspace.Tree, out *strings.Builder) error {
	first, last := 1, int(^uint(0)>>1)
	if r.Offset != nil {
		first = *r.Offset
	}
	if r.Length != nil {
		last = first - 1 + min(*r.Length, workspace.MaxToolFile)
	}
	switch {
	case first < 1 || first > workspace.MaxToolFile:
		return invalid("Offset must be >= 1 (1-indexed) and a line of the file")
	case last < first:
		return invalid("Length must be >= 1")
	}
	f, err := openText(tree, workspace.ToolPath(r.Name), workspace.MaxToolFile)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	var view strings.Builder
	total, end, more := 0, 0, 0
	err = f.eachLine(ctx, func(n int, line []byte) error {
		switch total = n; {
		case n < first || n > last || more > 0:
		case view.Len() >= maxView:
			more = n
		default:
			end = n
			fmt.Fprintf(&view, "%d: %s\n", n, shown(line))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case total > 0 && first > total || total == 0 && first > 1:
		return invalid("Offset %d is behind the end of the file, which has %d lines", first, total)
	}
	head := fmt.Sprintf("[Viewing file start (out of %d lines)]", total)
	if r.Offset != nil || r.Length != nil || more > 0 {
		head = fmt.Sprintf("[Viewing lines %d to %d (out of %d lines)]", first, end, total)
	}
	fmt.Fprintf(out, "=== %s ===\n%s\n%s", workspace.ToolPath(r.Name), head, view.String())
	if more > 0 {
		fmt.Fprintf(out, "[to see more lines, open the file with offset=%d]\n", more)
	}
	return nil
}
