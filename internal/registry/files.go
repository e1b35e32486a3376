package registry

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/internal/requirement"
)

// compiledEnds are the ends of files that an interpreter loads as code and that no review can
// read.
var compiledEnds = []string{".so", ".pyc", ".pyd", ".node", ".wasm", ".dll", ".dylib"}

// files checks the files of a draft.
func (c *checker) files(list []haft.ToolFile, kind haft.Kind) {
	if len(list) > haft.MaxToolFiles {
		c.fail("/files", "has %d files, %d is the most", len(list), haft.MaxToolFiles)
		return
	}
	total, seen, dirs := 0, map[string]bool{}, map[string]bool{}
	for i, f := range list {
		at := fmt.Sprintf("/files/%d", i)
		if why := pathFault(f.Path); why != "" {
			c.fail(at+"/path", "%s", why)
			continue
		}
		top, below, _ := strings.Cut(f.Path, "/")
		if name, isPython := strings.CutSuffix(top, ".py"); kind == haft.KindPython && (below != "" || isPython) &&
			requirement.IsStandard(name) {
			c.fail(at+"/path", "has the name of a module of Python itself: choose another")
		}
		if seen[f.Path] {
			c.fail(at+"/path", "is there twice")
		}
		seen[f.Path] = true
		for d := path.Dir(f.Path); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
		if f.Text != "" && len(f.Data) > 0 {
			c.fail(at, "has content or content_base64, not both")
		}
		c.text(at+"/content", f.Text, MaxSource)
		if len(f.Data) > MaxSource {
			c.fail(at+"/content_base64", "has %d bytes, %d is the most", len(f.Data), MaxSource)
		}
		total += len(f.Text) + len(f.Data)
	}
	for i, f := range list {
		if dirs[f.Path] {
			c.fail(fmt.Sprintf("/files/%d/path", i), "is the directory of another file")
		}
	}
	if total > haft.MaxToolFileBytes {
		c.fail("/files", "have %d bytes together, %d is the most", total, haft.MaxToolFileBytes)
	}
}

// pathFault says why a file of a tool cannot have a path, or is "".
func pathFault(name string) string {
	parts := strings.Split(name, "/")
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsFunc(name, unicode.IsControl) ||
		strings.Contains(name, `\`):
		return "is not a clean relative path below the directory of the tool"
	case len(name) > haft.MaxToolFilePath || len(parts) > haft.MaxToolFileDepth:
		return fmt.Sprintf("is too long or too deep: %d bytes and %d parts are the most", haft.MaxToolFilePath,
			haft.MaxToolFileDepth)
	case slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, ".") }):
		return "is hidden: programs read their settings from such files"
	case slices.Contains(parts, "node_modules"):
		return "is in node_modules: packages are requirements"
	case name == ToolDirFile:
		return "is the name of the file that describes a directory"
	case parts[0] == "out":
		return "is where the artifacts of a call are: choose another directory"
	case slices.Contains(compiledEnds, strings.ToLower(path.Ext(name))):
		return "is compiled code, which no review can read"
	}
	return ""
}

// plainFiles returns files in the order of their paths, with content that is text as text, so
// that equal files have one form.
func plainFiles(list []haft.ToolFile) []haft.ToolFile {
	list = slices.Clone(list)
	for i, f := range list {
		if len(f.Data) > 0 && utf8.Valid(f.Data) && bytes.IndexByte(f.Data, 0) < 0 {
			list[i] = haft.ToolFile{Path: f.Path, Text: string(f.Data)}
		}
	}
	slices.SortFunc(list, func(a, b haft.ToolFile) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// reviewFiles reviews the files of a draft as code of their language. A file of no known
// language is one that Node.js and Bash could run all the same: it is read as code of the tool.
// Files that nothing could read as code have a finding that says so.
func (r *Registry) reviewFiles(ctx context.Context, c *change) error {
	unread := func(f haft.ToolFile, message string) {
		c.findings = append(c.findings, haft.Finding{Scanner: "haft", Rule: "file-not-reviewed",
			Severity: haft.SeverityLow, File: f.Path, Message: message})
	}
	for _, f := range c.draft.Files {
		if len(f.Data) > 0 {
			unread(f, "the file is no text, so that nothing looked into it")
			continue
		}
		kind, known := KindOf(f.Path)
		switch {
		case known || c.draft.Kind == haft.KindPython:
		case c.draft.Kind == haft.KindBash || path.Ext(f.Path) != ".json":
			kind = c.draft.Kind
		}
		found, err := r.cfg.Review(ctx, kind, f.Text)
		if err != nil {
			return err
		}
		for _, x := range found {
			if x.File = f.Path; !known && x.Rule == "source-unreadable" {
				unread(f, "the file is no code of the tool's language, so that only its text was looked at")
				continue
			}
			c.findings = append(c.findings, x)
		}
	}
	return nil
}

// fileChanges says how the files of two versions differ. Both are ordered by path.
func fileChanges(old, new []haft.ToolFile) []string {
	var lines []string
	for len(old) > 0 || len(new) > 0 {
		switch {
		case len(new) == 0 || len(old) > 0 && old[0].Path < new[0].Path:
			lines, old = append(lines, old[0].Path+": removed"), old[1:]
		case len(old) == 0 || new[0].Path < old[0].Path:
			lines, new = append(lines, new[0].Path+": added"), new[1:]
		default:
			if !bytes.Equal(old[0].Bytes(), new[0].Bytes()) {
				lines = append(lines, new[0].Path+": changed")
			}
			old, new = old[1:], new[1:]
		}
	}
	return lines
}
