package registry

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
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
		if f.Omitted {
			c.fail(at, "has no content: lists of tools leave it out, and the tool itself has it")
		}
		if f.Text != "" && len(f.Data) > 0 {
			c.fail(at, "has content or content_base64, not both")
		}
		c.text(at+"/content", f.Text, MaxSource)
		if len(f.Data) > MaxSource {
			c.fail(at+"/content_base64", "has %d bytes, %d is the most", len(f.Data), MaxSource)
		}
		if _, code := KindOf(f.Path); code && !isText(f.Data) {
			c.fail(at+"/content_base64", "is code that is not text in UTF-8, which no review can read")
		} else if isCompiled(f.Data) || isCompiled([]byte(f.Text)) {
			c.fail(at, "is compiled code or an archive, which no review can read")
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
	case strings.EqualFold(path.Base(name), "package.json"):
		return "tells Node.js which files are code: leave it out, and name packages as requirements"
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
		if len(f.Data) > 0 && isText(f.Data) {
			list[i] = haft.ToolFile{Path: f.Path, Text: string(f.Data)}
		}
	}
	slices.SortFunc(list, func(a, b haft.ToolFile) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// dataEnds are the ends of files that are data. Any other is one that Node.js and Bash could
// run.
var dataEnds = []string{".json", ".jsonl", ".csv", ".tsv", ".md", ".rst", ".txt", ".toml", ".yaml", ".yml", ".ini",
	".html", ".htm", ".css", ".xml", ".svg", ".sql", ".tmpl", ".j2", ".pem"}

// reviewFiles reviews the files of a draft as code of their own language and of that of the tool,
// which could load them by any name, unless they are data. It is enough if one of the two can
// read them: the reviews of both find code that loads files of another language.
func (r *Registry) reviewFiles(ctx context.Context, c *change) error {
	for _, f := range c.draft.Files {
		if len(f.Data) > 0 {
			c.findings = append(c.findings, binaryFinding(f, c.draft.Kind))
			continue
		}
		var unread []haft.Finding
		kinds := fileKinds(f.Path, c.draft.Kind)
		for _, kind := range kinds {
			found, err := r.cfg.Review(ctx, kind, f.Text, true)
			if err != nil {
				return err
			}
			isUnread := func(x haft.Finding) bool { return x.Rule == "source-unreadable" }
			if i := slices.IndexFunc(found, isUnread); i >= 0 {
				unread = append(unread, found[i])
			}
			for _, x := range found {
				if x.File = f.Path; !isUnread(x) && !slices.Contains(c.findings, x) {
					c.findings = append(c.findings, x)
				}
			}
		}
		if len(unread) == len(kinds) {
			unread[0].File = f.Path
			c.findings = append(c.findings, unread[0])
		}
	}
	return nil
}

// fileKinds returns the languages that a file of a tool is reviewed in; "" is data.
func fileKinds(name string, tool haft.Kind) []haft.Kind {
	own, known := KindOf(name)
	isNode := func(k haft.Kind) bool { return k == haft.KindJavaScript || k == haft.KindTypeScript }
	switch {
	case known && (own == tool || isNode(own) && isNode(tool) || tool == haft.KindPython): // it imports .py only
		return []haft.Kind{own}
	case known:
		return []haft.Kind{own, tool}
	case tool == haft.KindPython || slices.Contains(dataEnds, strings.ToLower(path.Ext(name))):
		return []haft.Kind{""}
	}
	return []haft.Kind{tool}
}

// binaryFinding is about a file that is no text. Pictures, sound and fonts are harmless; what has
// neither a known format nor the ending of data could be code in another encoding.
func binaryFinding(f haft.ToolFile, tool haft.Kind) haft.Finding {
	x := haft.Finding{Scanner: scanner, Rule: "file-not-reviewed", Severity: haft.SeverityMedium, File: f.Path,
		Message: "the file is no text, so that nothing looked into it"}
	end := strings.ToLower(path.Ext(f.Path))
	family, _, _ := strings.Cut(http.DetectContentType(f.Data), "/")
	switch {
	case end != "" && slices.Contains([]string{"image", "audio", "video", "font"}, family):
		x.Severity = haft.SeverityLow
	case tool != haft.KindPython && !slices.Contains(dataEnds, end):
		x.Severity = haft.SeverityHigh
	}
	return x
}

// isCompiled reports whether content is a program, a library or an archive that interpreters
// load code from, which zipimport finds at the end of a file.
func isCompiled(b []byte) bool {
	return bytes.Contains(b, []byte("PK\x05\x06\x00\x00")) ||
		slices.ContainsFunc([]string{"PK\x03\x04", "\x7fELF", "\x00asm", "MZ", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf",
			"\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"}, func(magic string) bool {
			return bytes.HasPrefix(b, []byte(magic)) && !isText(b)
		})
}

// isText reports whether content is text, which is reviewed.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

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
