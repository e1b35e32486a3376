package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/schema"
)

// The bounds on a directory of tools.
const (
	MaxFiles     = 1000      // tools
	maxVisited   = 50_000    // files and directories that are looked at
	maxDirBytes  = 128 << 20 // of all sources together
	sidecarEnd   = ".tool.json"
	maxSidecar   = MaxSchema + MaxSchema + MaxDescription + 64<<10
	dirMode      = 0o755
	fileMode     = 0o644
	maxDirLevels = 32
)

// A Found is a file of a directory that is a tool, or why it is none.
type Found struct {
	// Path is that of the source within the directory, with slashes.
	Path  string
	Draft haft.Draft
	// Whole says that the directory of Path is this one tool.
	Whole bool
	Err   error
}

// endings lists how the files of each kind of source end, the usual ending first.
func endings() map[haft.Kind][]string {
	return map[haft.Kind][]string{
		haft.KindPython: {".py"}, haft.KindTypeScript: {".ts", ".mts", ".cts"},
		haft.KindJavaScript: {".js", ".mjs", ".cjs"}, haft.KindBash: {".sh", ".bash"},
	}
}

// KindOf returns the kind of a source by the end of its name.
func KindOf(name string) (haft.Kind, bool) {
	for kind, ends := range endings() {
		if slices.Contains(ends, strings.ToLower(path.Ext(name))) {
			return kind, true
		}
	}
	return "", false
}

// stem returns the path of a source without its ending.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// ReadDir reads the tools below a directory: every .py, .ts, .js and .sh file is one, and so is
// a directory with a [ToolDirFile].
// weather.tool.json beside weather.py is a sidecar: a [haft.Draft] without the source.
// A shell script or a default export without a name is named after its file.
//
// ReadDir skips hidden files and directories, node_modules, __pycache__, tests by the
// conventions of their language, and links that lead out of the directory. A mistake in
// one file is in its Found; an error is about the whole directory. The result is ordered
// by path.
func ReadDir(dir string) ([]Found, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, dirError(err)
	}
	defer func() { _ = root.Close() }() // it is only read
	files, dirs, err := filesOf(root)
	if err != nil {
		return nil, err
	}
	var found []Found
	total, used := 0, map[string]bool{}
	for _, dir := range dirs {
		entry, d, err := readToolDir(root, dir)
		f := Found{Path: path.Join(dir, cmp.Or(entry, ToolDirFile)), Draft: d, Whole: true}
		if err != nil {
			f.Err = fileError(f.Path, err)
		}
		for _, file := range d.Files {
			total += len(file.Text) + len(file.Data)
		}
		total += len(d.Source)
		found = append(found, f)
	}
	for _, name := range files {
		if _, ok := KindOf(name); !ok {
			continue
		}
		if len(found) >= MaxFiles {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("there are more than %d tools in the directory", MaxFiles)}
		}
		f := Found{Path: name}
		side, err := sidecar(files, name)
		if err == nil {
			used[side] = true
			f.Draft, err = readDraft(root, name, "", side)
		}
		if err != nil {
			f.Err = fileError(name, err)
		}
		if total += len(f.Draft.Source); total > maxDirBytes {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("the tools in the directory have more than %d bytes together", maxDirBytes)}
		}
		found = append(found, f)
	}
	for _, name := range files {
		if strings.HasSuffix(name, sidecarEnd) && !used[name] && len(sourcesOf(files, name)) == 0 {
			found = append(found, Found{Path: name,
				Err: fileError(name, errors.New("there is no source of that name beside it"))})
		}
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// filesOf returns the files of a directory that may concern us, in order, and the directories
// that are one tool each.
func filesOf(root *os.Root) (files, dirs []string, err error) {
	visited := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			return nil // a directory that we may not read holds no tools for us
		}
		if visited++; visited > maxVisited {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("there are more than %d files in the directory", maxVisited)}
		}
		switch {
		case d.IsDir() && len(dirs) < MaxFiles && isFile(root, path.Join(name, ToolDirFile)):
			dirs = append(dirs, name)
			return fs.SkipDir
		case name == ".":
		case d.IsDir():
			if skipDir(d.Name()) || strings.Count(name, "/") >= maxDirLevels {
				return fs.SkipDir
			}
		case !skipFile(d.Name()) && regular(root, name, d):
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return nil, nil, dirError(err)
	}
	slices.Sort(files)
	return files, dirs, nil
}

// regular reports whether a name is that of a file, or of a link to one that does
// not lead out of the directory.
func regular(root *os.Root, name string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// skipDir reports directories that hold no tools.
func skipDir(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "__pycache__", "__tests__"}, name)
}

// skipFile reports files that are no tools, whatever they end in.
func skipFile(name string) bool {
	if _, ok := KindOf(name); !ok {
		return strings.HasPrefix(name, ".") || !strings.HasSuffix(name, sidecarEnd)
	}
	base := stem(name)
	return strings.HasPrefix(name, ".") || strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test") ||
		strings.HasSuffix(base, ".test") || strings.HasSuffix(base, ".spec") || strings.HasSuffix(base, ".d") ||
		slices.Contains([]string{"__init__.py", "__main__.py", "conftest.py", "setup.py"}, name)
}

// sidecar returns the name of the file with the settings of a source, or "".
func sidecar(files []string, source string) (string, error) {
	name := SidecarOf(source)
	if _, ok := slices.BinarySearch(files, name); !ok {
		return "", nil
	}
	for _, f := range sourcesOf(files, name) {
		if f != source {
			return "", fmt.Errorf("%s could be about this file or about %s", path.Base(name), path.Base(f))
		}
	}
	return name, nil
}

// sourcesOf returns the sources that a sidecar could be about.
func sourcesOf(files []string, side string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool {
		_, ok := KindOf(f)
		return !ok || stem(f) != strings.TrimSuffix(side, sidecarEnd)
	})
}

// readDraft reads a source and its sidecar, which is "" if there is none. The function may be "".
func readDraft(root *os.Root, name, function, side string) (haft.Draft, error) {
	f := File{Name: path.Base(name), Function: function}
	var err error
	if side != "" {
		if f.Sidecar, err = read(root, side, maxSidecar); err != nil {
			return haft.Draft{}, err
		}
	}
	if f.Source, err = read(root, name, MaxSource); err != nil {
		return haft.Draft{}, err
	}
	return f.Draft()
}

// A File is a source with its sidecar.
type File struct {
	Name     string // of the source, without directories
	Function string // which function of it is the tool, or ""
	Source   []byte
	Sidecar  []byte // nil if there is none
}

// SidecarOf returns the path of the sidecar of a source.
func SidecarOf(source string) string { return stem(source) + sidecarEnd }

// Draft returns the draft of the tool. A source that does not name its tool gives it the
// name of the file.
func (f File) Draft() (haft.Draft, error) {
	kind, _ := KindOf(f.Name)
	var d haft.Draft
	if f.Sidecar != nil {
		var err error
		if d, err = ReadSidecar(f.Sidecar); err != nil {
			return haft.Draft{}, fmt.Errorf("%s: %w", SidecarOf(f.Name), err)
		}
		if d.Kind != "" && d.Kind != kind {
			return haft.Draft{}, fmt.Errorf("%s says that it is %s, but its name ends otherwise", SidecarOf(f.Name),
				d.Kind)
		}
	}
	d.Kind, d.Source = kind, string(f.Source)
	if d.File == "" && isFileName(f.Name) {
		d.File = f.Name
	}
	if f.Function != "" {
		d.Function = f.Function
	} else if d.Name == "" && nameless(kind, d.Source) {
		d.Name = stem(f.Name)
	}
	return d, nil
}

var (
	// shellName is how a shell script says what it is called, in the comment at its
	// head.
	shellName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#[ \t]*tool:`) })
	// defaultExport is one that has no name.
	defaultExport = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*export[ \t]+default[ \t]+(async[ \t]*)?(function[ \t]*)?\(`)
	})
)

// nameless reports whether a source does not name its tool. A wrong answer does little
// harm: the name of the file is then used, or not.
func nameless(kind haft.Kind, source string) bool {
	switch kind {
	case haft.KindTypeScript, haft.KindJavaScript:
		return defaultExport().MatchString(source)
	case haft.KindBash:
		for line := range strings.Lines(source) {
			if !strings.HasPrefix(line, "#") || shellName().MatchString(line) {
				return !strings.HasPrefix(line, "#")
			}
		}
		return true
	}
	return false
}

// ReadSidecar reads a sidecar: a [haft.Draft] without the source, with known keys only
// and none twice.
func ReadSidecar(text []byte) (haft.Draft, error) {
	if len(text) > maxSidecar {
		return haft.Draft{}, fmt.Errorf("it has more than %d bytes", maxSidecar)
	}
	tree, err := schema.Decode(text)
	if err != nil {
		return haft.Draft{}, err
	}
	o, ok := tree.(*schema.Object)
	if !ok {
		return haft.Draft{}, errors.New("it must be an object")
	}
	var d haft.Draft
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return haft.Draft{}, unreadable(err)
	}
	if d.Source != "" || d.Files != nil || d.New || d.If != "" {
		return haft.Draft{}, errors.New("source_code, files, new and if_digest do not belong here")
	}
	d.Named = namedIn(o)
	return d, nil
}

// unreadable says what is wrong with a sidecar, without its values.
func unreadable(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s cannot be a %s", e.Field, e.Value)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownField(strings.Trim(cut(field), `"`))
	}
	return err
}

// read reads a file that may have so many bytes.
func read(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	// One byte more than allowed tells that there is more.
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return text, nil
}

// fileError says what is wrong with a file, by its name within the directory.
func fileError(name string, err error) error {
	message := err.Error()
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		message = e.Err.Error() // the path is that of the host
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: name + ": " + message, Err: err}
}

// dirError says why a directory cannot be used.
func dirError(err error) error {
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	code, message := haft.CodeInternal, "the directory of tools cannot be used"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code, message = haft.CodeNotFound, "there is no such directory of tools"
	case errors.Is(err, fs.ErrPermission):
		code, message = haft.CodeDenied, "the directory of tools may not be used"
	}
	return &haft.Error{Code: code, Message: message, Err: err}
}
