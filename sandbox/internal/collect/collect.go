package collect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"haft"
)

// The bounds of the walk.
const (
	maxDepth   = 16
	maxEntries = 10000 // looked at, in all
	maxCuts    = 100   // reported
	maxName    = 1024
)

// A walk collects files.
type walk struct {
	root    int             // descriptor of the directory
	hidden  bool            // hidden files and caches of programs are taken, too
	skip    map[string]bool // names that are not taken
	files   []haft.Artifact
	cuts    []string
	entries int
	maxN    int
	left    int64 // bytes that may still be taken
}

// out is the directory whose files are all given back, under their names within it.
const out = "out"

// Artifacts returns the regular files that a command left in the directory work of dir, at most
// n with at most size bytes in all, and says what it left out. First come those in the directory
// out of work. Of the others, those that were given to the command are not taken, nor hidden
// ones and caches: work is the home of the command, where programs keep their own files.
func Artifacts(dir *os.File, work string, given []string, n int, size int64) ([]haft.Artifact, []string) {
	w := &walk{maxN: n, left: size, hidden: true}
	w.tree(dir, path.Join(work, out))
	w.hidden, w.skip = false, map[string]bool{out: true}
	for _, name := range given {
		w.skip[name] = true
	}
	w.tree(dir, work)
	return w.files, w.cuts
}

// tree walks the directory sub of dir.
func (w *walk) tree(dir *os.File, sub string) {
	root, err := openBeneath(int(dir.Fd()), sub, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return
	}
	if err != nil {
		w.cut(path.Base(sub), "cannot be opened")
		return
	}
	w.root = root
	defer unix.Close(root) // only read
	w.dir(".", 0)
}

// dir walks one directory, names in order.
func (w *walk) dir(name string, depth int) {
	if depth > maxDepth {
		w.cut(name, "too deep")
		return
	}
	fd, err := openBeneath(w.root, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		w.cut(name, "cannot be opened")
		return
	}
	d := os.NewFile(uintptr(fd), "dir")
	defer d.Close() // only read
	names, err := d.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		w.cut(name, "cannot be listed")
		return
	}
	slices.Sort(names)
	for _, n := range names {
		if at := path.Join(name, n); w.hidden || !w.skip[at] && !isCache(n) {
			if w.entries++; w.entries > maxEntries {
				return
			}
			if w.entries == maxEntries {
				w.cut(name, "too many entries")
			}
			w.entry(at, depth)
		}
	}
}

// isCache reports whether a name is hidden, or that of a directory in which interpreters keep code.
func isCache(name string) bool {
	return strings.HasPrefix(name, ".") || name == "__pycache__" || name == "node_modules"
}

// entry takes one file, or goes into one directory.
func (w *walk) entry(name string, depth int) {
	if !Clean(name) {
		w.cut(name, "has a name that cannot be given back")
		return
	}
	// The file is opened to look at it first: opening a device or a pipe for reading can
	// have effects, and what has this name could change after a look by name.
	at, err := openBeneath(w.root, name, lookOnly)
	if errors.Is(err, unix.EXDEV) && !w.hidden {
		return // the caller has mounted it there
	}
	if err != nil {
		w.cut(name, "is a link, or cannot be opened")
		return
	}
	defer unix.Close(at) // only looked at
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		w.cut(name, "cannot be looked at")
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.dir(name, depth+1)
	case unix.S_IFREG:
		w.file(name, &st)
	default:
		w.cut(name, "is not a regular file")
	}
}

// file takes one regular file.
func (w *walk) file(name string, st *unix.Stat_t) {
	switch {
	case st.Nlink != 1: // it could be a file of the host
		w.cut(name, "has more than one name")
		return
	case !w.hidden && slices.ContainsFunc(w.files, func(f haft.Artifact) bool { return f.Name == name }):
		w.cut(name, "has the name of a file in "+out)
		return
	case len(w.files) >= w.maxN:
		w.cut(name, "is one file too many")
		return
	case st.Size > w.left:
		w.cut(name, "is too large")
		return
	}
	fd, err := openBeneath(w.root, name, unix.O_RDONLY)
	if err != nil {
		w.cut(name, "cannot be opened")
		return
	}
	f := os.NewFile(uintptr(fd), "artifact")
	defer f.Close() // only read
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil || now.Ino != st.Ino || now.Dev != st.Dev ||
		now.Mode&unix.S_IFMT != unix.S_IFREG {
		w.cut(name, "changed")
		return
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, w.left+1))
	if err != nil || n > w.left {
		w.cut(name, "is too large, or cannot be read")
		return
	}
	w.left -= n
	w.files = append(w.files, haft.Artifact{Name: name, ContentType: ContentType(name, b.Bytes()), Size: n,
		Data: b.Bytes()})
}

// cut notes what was left out. Names are shown safely.
func (w *walk) cut(name, why string) {
	switch {
	case len(w.cuts) < maxCuts:
		if len(name) > maxName {
			name = name[:maxName]
		}
		w.cuts = append(w.cuts, fmt.Sprintf("%q %s", name, why))
	case len(w.cuts) == maxCuts:
		w.cuts = append(w.cuts, "and more")
	}
}

// Clean reports whether a name can be shown to anybody: UTF-8, no control or
// direction characters, not too long.
func Clean(name string) bool {
	return utf8.ValidString(name) && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == '\\' ||
			r == utf8.RuneError
	})
}

// ContentType is what the content looks like. The name only decides between kinds
// of text, which look alike.
func ContentType(name string, b []byte) string {
	sniffed := http.DetectContentType(b)
	if !strings.HasPrefix(sniffed, "text/plain") {
		return sniffed
	}
	switch ext := path.Ext(name); ext {
	case ".json", ".csv", ".md", ".svg", ".yaml", ".yml":
		return map[string]string{
			".json": "application/json", ".csv": "text/csv; charset=utf-8", ".md": "text/markdown; charset=utf-8",
			".svg": "image/svg+xml", ".yaml": "application/yaml", ".yml": "application/yaml",
		}[ext]
	case ".html", ".htm", ".js", ".mjs", ".xml":
		return sniffed // a browser must not run what a tool left
	default:
		if t := mime.TypeByExtension(ext); strings.HasPrefix(t, "text/") {
			return t
		}
		return sniffed
	}
}
