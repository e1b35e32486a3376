package registry

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"haft"
	"haft/internal/requirement"
)

// ToolDirFile is the file that makes a directory one tool of several files.
const ToolDirFile = "haft.toml"

// isFile reports whether a name is that of a regular file.
func isFile(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// readToolDir reads the tool of a directory with a [ToolDirFile], and the path of its source.
func readToolDir(root *os.Root, dir string) (entry string, d haft.Draft, err error) {
	sub, err := root.OpenRoot(dir)
	if err != nil {
		return "", d, err
	}
	defer func() { _ = sub.Close() }() // it is only read
	text, err := read(sub, ToolDirFile, requirement.MaxFile)
	if err != nil {
		return "", d, err
	}
	of, err := requirement.ReadToolDir(ToolDirFile, string(text))
	if err != nil {
		return "", d, err
	}
	_, isSource := KindOf(of.Entry)
	if !isSource || path.Base(of.Entry) != of.Entry || pathFault(of.Entry) != "" || !isFile(sub, of.Entry) {
		return "", d, fmt.Errorf("%s: entry must name a .py, .ts, .js or .sh file beside it", ToolDirFile)
	}
	side := SidecarOf(of.Entry)
	if !isFile(sub, side) {
		side = ""
	}
	if d, err = readDraft(sub, of.Entry, of.Function, side); err != nil {
		return "", d, err
	}
	d.Named = append(d.Named, "files")
	d.Files, err = readToolFiles(sub, of.Files, []string{ToolDirFile, of.Entry, SidecarOf(of.Entry)})
	return of.Entry, d, err
}

// readToolFiles reads the files below a directory that patterns choose, or all that are not
// hidden, compiled or installed. It follows no links.
func readToolFiles(root *os.Root, patterns, without []string) ([]haft.ToolFile, error) {
	var files []haft.ToolFile
	used := make([]bool, len(patterns))
	total, visited := 0, 0
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if visited++; visited > maxVisited {
			return fmt.Errorf("there are more than %d files in it", maxVisited)
		}
		switch {
		case err != nil || name == ".":
			return err
		case strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"node_modules", "__pycache__", "package.json"}, d.Name()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || slices.Contains(without, name) || !chosen(patterns, used, name):
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is a link or no regular file, which a tool cannot have: name the files of the tool "+
				"in %s, such as files = [\"core\", \"*.json\"]", name, ToolDirFile)
		case len(files) == haft.MaxToolFiles:
			return fmt.Errorf("there are more than %d files in it: name the files of the tool in %s, such as "+
				"files = [\"core\", \"*.json\"]", haft.MaxToolFiles, ToolDirFile)
		}
		data, err := read(root, name, MaxSource)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if total += len(data); total > haft.MaxToolFileBytes {
			return fmt.Errorf("the files have more than %d bytes together", haft.MaxToolFileBytes)
		}
		files = append(files, haft.ToolFile{Path: name, Data: data})
		return nil
	})
	for i, p := range patterns {
		if err == nil && !used[i] {
			err = fmt.Errorf("%s: files names %q, and there is no such file", ToolDirFile, cut(p))
		}
	}
	return plainFiles(files), err
}

// chosen reports whether one of the patterns names a file or a directory above it, and notes
// which do.
func chosen(patterns []string, used []bool, name string) bool {
	found := len(patterns) == 0
	for i, p := range patterns {
		p = strings.TrimSuffix(p, "/")
		match, _ := path.Match(p, name) // a wrong pattern chooses nothing, which is reported
		if match || p == name || strings.HasPrefix(name, p+"/") {
			used[i], found = true, true
		}
	}
	return found
}

// writeToolDir writes a tool of several files into a directory.
func writeToolDir(root *os.Root, dir, entry string, t haft.Tool) error {
	if err := root.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	sub, err := root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }() // every file was synced by itself
	var paths []string
	for _, f := range t.Version.Files {
		if why := pathFault(f.Path); why != "" {
			return fmt.Errorf("the path of a file %s", why)
		}
		if err := sub.MkdirAll(path.Dir(f.Path), dirMode); err != nil {
			return err
		}
		if err := write(sub, f.Path, f.Bytes()); err != nil {
			return err
		}
		paths = append(paths, f.Path)
	}
	list, err := json.Marshal(paths) // which is TOML, too
	if err != nil {
		return err
	}
	return write(sub, ToolDirFile, fmt.Appendf(nil, "entry = %q\nfiles = %s\n", entry, list))
}
