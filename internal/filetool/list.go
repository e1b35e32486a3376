package filetool

import (
	"context"
	"fmt"
	"time"

	"haft/executor/builtin"
	"haft/internal/workspace"
)

const (
	maxListed = 1000    // entries of a listing
	maxWrite  = 1 << 20 // bytes of a text that is written
)

type listIn struct {
	Path    string `json:"path,omitempty" jsonschema:"A directory of the workspace. Without it everything is listed."`
	Pattern string `json:"pattern,omitempty" jsonschema:"List only what has a path that fits this pattern, such as *.md."`
}

// A listing is what list_files returns.
type listing struct {
	Files []listed `json:"files"`
	More  bool     `json:"more,omitempty" jsonschema:"There are others: name a path or a pattern."`
}

type listed struct {
	Path     string `json:"path"`
	Kind     string `json:"kind" jsonschema:"file, directory, link or other; only files can be opened"`
	Size     int64  `json:"size,omitempty"`
	Modified string `json:"modified_at"`
}

// addList adds the tool that lists files.
func (t tools) addList(s *builtin.Set) error {
	d := def("list_files", "List the files and directories of your workspace, by path.", true)
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in listIn) (out listing, err error) {
		glob, err := compileGlob("pattern", in.Pattern)
		if err != nil {
			return out, err
		}
		out.Files = []listed{}
		err = t.read(ctx, c, func(ctx context.Context, tree *workspace.Tree) error {
			all, err := tree.List(ctx, workspace.ToolPath(in.Path))
			if err != nil {
				return err
			}
			out.More = all.More
			for _, e := range all.Entries {
				if glob != nil && !glob.MatchString(e.Path) {
					continue
				}
				if len(out.Files) >= maxListed {
					out.More = true
					break
				}
				out.Files = append(out.Files, listed{e.Path, e.Kind, e.Size, e.Modified.Format(time.RFC3339)})
			}
			return nil
		})
		return out, err
	})
}

type writeIn struct {
	Path    string `json:"path" jsonschema:"The path of the file in the workspace. Directories are made."`
	Content string `json:"content" jsonschema:"The text of the file, or what is added to it. At most 1 MiB."`
	Mode    string `json:"mode,omitempty" jsonschema:"What to do if there is a file: create (default) refuses it, overwrite replaces it, append adds to its end."`
}

// addWrite adds the tool that writes files.
func (t tools) addWrite(s *builtin.Set) error {
	d := def("write_file", "Write a text file in your workspace: a new one, in the place of another, or at the end of "+
		"one. The file is written as a whole or not at all.", false)
	destroys := true // what it overwrites
	d.Annotations.Destructive = &destroys
	d.Enums = map[string][]string{"mode": {string(workspace.Create), string(workspace.Overwrite),
		string(workspace.Append)}}
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in writeIn) (string, error) {
		mode := workspace.WriteMode(in.Mode)
		switch {
		case c.Workspace == nil:
			return "", errNoWorkspace()
		case len(in.Content) > maxWrite:
			return "", invalid("content: it is %d bytes large, %d is the most", len(in.Content), maxWrite)
		case mode == "":
			mode = workspace.Create
		case mode != workspace.Create && mode != workspace.Overwrite && mode != workspace.Append:
			return "", invalid("mode: it is create, overwrite or append")
		}
		if err := t.store.WriteFor(ctx, c.Workspace, workspace.ToolPath(in.Path), in.Content, mode); err != nil {
			return "", err
		}
		return fmt.Sprintf("Wrote %d bytes.", len(in.Content)), nil
	})
}
