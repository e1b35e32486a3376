package layer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
)

// Info says what a layer is. It is kept beside the files, and not among them.
type Info struct {
	Digest  string    `json:"digest"`
	Kind    string    `json:"kind"`
	Runtime string    `json:"runtime"`
	Bytes   int64     `json:"bytes"`
	Files   int       `json:"files"`
	Created time.Time `json:"created_at"`
	// Took is how long it was built.
	Took haft.Millis `json:"took_ms"`
	// Manifest is the SHA-256 of the list of all files.
	Manifest string `json:"manifest"`
	// LastUse and InUse are found when a layer is listed.
	LastUse time.Time `json:"last_use"`
	InUse   bool      `json:"in_use"`
}

// entry is one line of a manifest.
type entry struct {
	Path string `json:"p"`
	Size int64  `json:"s,omitempty"`
	Sum  string `json:"h,omitempty"` // of a regular file
	Exec bool   `json:"x,omitempty"`
	Link string `json:"l,omitempty"` // of a symbolic link
	Dir  bool   `json:"d,omitempty"`
}

// The names beside files. maxInfo bounds what is read back of the small ones.
const (
	infoFile     = "info.json"
	manifestFile = "manifest.jsonl"
	lockFile     = "lock"
	maxInfo      = 64 << 10
	maxLock      = 16 << 20
)

// seal makes files read-only, hashes them, writes info, manifest and lock beside them, and
// syncs all of it to the disk.
func (s *Store) seal(ctx context.Context, tmp string, want Want, started time.Time) (Info, error) {
	root, err := os.OpenRoot(filepath.Join(tmp, "files"))
	if err != nil {
		return Info{}, explain("open what was installed", err)
	}
	defer root.Close()
	w := &sealer{store: s, root: root, ctx: ctx}
	if err := fs.WalkDir(root.FS(), ".", w.visit); err != nil {
		return Info{}, explain("keep what was installed", err)
	}
	// Directories last, and the inner ones first.
	for i := len(w.dirs) - 1; i >= 0; i-- {
		if err := w.finish(w.dirs[i], 0o555, true); err != nil {
			return Info{}, explain("keep what was installed", err)
		}
	}
	sum := sha256.Sum256(w.lines.Bytes())
	info := Info{
		Digest: want.Digest(), Kind: want.Kind, Runtime: want.Runtime, Bytes: w.bytes, Files: w.count,
		Created: time.Now().UTC(), Took: haft.Millis(time.Since(started)), Manifest: hex.EncodeToString(sum[:]),
	}
	text, err := json.Marshal(info)
	if err != nil {
		return Info{}, fmt.Errorf("write about a layer: %w", err)
	}
	for name, data := range map[string][]byte{manifestFile: w.lines.Bytes(), infoFile: text, lockFile: want.Lock} {
		if err := writeFile(filepath.Join(tmp, name), data); err != nil {
			return Info{}, explain("write about a layer", err)
		}
	}
	return info, explain("write about a layer", syncDir(tmp))
}

// sealer walks over what was installed.
type sealer struct {
	store *Store
	root  *os.Root
	ctx   context.Context // of the one walk
	lines bytes.Buffer
	dirs  []string
	bytes int64
	count int
}

// visit handles one file.
func (w *sealer) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return err
	}
	w.count++
	if info.Mode().IsRegular() {
		w.bytes += info.Size()
	}
	if err := w.store.bounds(w.bytes, w.count); err != nil {
		return err
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return unfit("a file whose name is not plain text")
	}
	e := entry{Path: name}
	switch mode := info.Mode(); {
	case mode.IsDir():
		e.Dir = true
		w.dirs = append(w.dirs, name)
		if mode.Perm()&0o500 != 0o500 { // or it could not be looked into
			if err := w.root.Chmod(name, 0o755); err != nil {
				return err
			}
		}
	case mode.IsRegular():
		e.Size, e.Exec = info.Size(), mode&0o111 != 0
		if e.Sum, err = w.file(name, info); err != nil {
			return err
		}
	case mode&fs.ModeSymlink != 0:
		if e.Link, err = w.root.Readlink(name); err != nil {
			return err
		}
		if !inside(name, e.Link) {
			return unfit("a link that leads out of them")
		}
	default:
		return unfit("something that is neither a file nor a directory nor a link")
	}
	return json.NewEncoder(&w.lines).Encode(e)
}

// unfit refuses to keep what was installed.
func unfit(what string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "the packages cannot be kept: among their files is " + what}
}

// inside reports whether a link at name cannot lead out of the layer. Steps up must come
// first: after a name, which may be a link itself, their target is unknown.
func inside(name, link string) bool {
	if link == "" || path.IsAbs(link) || strings.ContainsRune(link, 0) {
		return false
	}
	depth := strings.Count(name, "/")
	down := false
	for part := range strings.SplitSeq(link, "/") {
		switch part {
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		case "", ".":
		default:
			down = true
		}
	}
	return true
}

// file returns the hash of a regular file and makes it read-only. A file that has
// other names gets an inode of its own: somebody may write through them.
func (w *sealer) file(name string, info fs.FileInfo) (string, error) {
	if links(info) > 1 {
		if err := w.copy(name); err != nil {
			return "", err
		}
	}
	f, err := w.root.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		// An installer may leave files that their owner cannot read.
		if err = w.root.Chmod(name, 0o600); err == nil {
			f, err = w.root.Open(name)
		}
	}
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	f.Close()
	if err != nil {
		return "", err
	}
	mode := fs.FileMode(0o444)
	if info.Mode()&0o111 != 0 {
		mode = 0o555
	}
	return hex.EncodeToString(h.Sum(nil)), w.finish(name, mode, false)
}

// copy replaces a file by a copy of it.
func (w *sealer) copy(name string) error {
	from, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	tmp := name + ".haft-copy"
	to, err := w.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if cErr := to.Close(); err == nil {
		err = cErr
	}
	if err != nil {
		return err
	}
	return w.root.Rename(tmp, name)
}

// finish sets owner and mode, and syncs the file. If Haft runs as root, the owner so far is
// the user of the sandbox, which another run may get too.
func (w *sealer) finish(name string, mode fs.FileMode, dir bool) error {
	if os.Geteuid() == 0 {
		if err := w.root.Lchown(name, 0, 0); err != nil {
			return err
		}
	}
	if err := w.root.Chmod(name, mode); err != nil {
		return err
	}
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !dir { // not every system syncs directories
		return err
	}
	return nil
}

// publish makes a sealed layer appear.
func (s *Store) publish(tmp, digest string) error {
	final := s.path("layers", digest)
	if err := os.Rename(tmp, final); err != nil {
		return explain("keep a layer", err)
	}
	if err := os.Chmod(final, 0o555); err != nil {
		return explain("keep a layer", err)
	}
	return explain("keep a layer", syncDir(s.path("layers")))
}

// discard removes a layer whose exclusive lock is held. It disappears at once, and
// its files after that.
func (s *Store) discard(digest string) error {
	s.mu.Lock()
	delete(s.verified, digest)
	s.mu.Unlock()
	from, to := s.path("layers", digest), s.path("tmp", digest+".gone")
	if err := removeTree(to); err != nil {
		return explain("remove a layer", err)
	}
	if err := os.Chmod(from, 0o700); errors.Is(err, fs.ErrNotExist) { // to rename a directory is to write to it
		return nil
	} else if err != nil {
		return explain("remove a layer", err)
	}
	if err := os.Rename(from, to); err != nil {
		return explain("remove a layer", err)
	}
	return explain("remove a layer", removeTree(to))
}

// writeFile writes a read-only file to the disk.
func writeFile(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cErr := f.Close(); err == nil {
		err = cErr
	}
	return err
}

// syncDir makes the names in a directory last.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = f.Sync() // not every system syncs directories
	return nil
}

// damaged says in which way a layer is not what was built.
func damaged(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeConflict, Message: "installed packages were changed on the disk: " +
		fmt.Sprintf(format, args...)}
}

// info reads the info file of a layer and checks that it belongs to the layer. The error
// wraps [fs.ErrNotExist] if there is no such layer.
func (s *Store) info(digest string) (Info, error) {
	if _, err := os.Lstat(s.path("layers", digest)); err != nil {
		return Info{}, err
	}
	text, err := readFile(s.path("layers", digest, infoFile), maxInfo)
	if err != nil {
		return Info{}, damaged("the file that describes them cannot be read")
	}
	var info Info
	if err := json.Unmarshal(text, &info); err != nil || info.Digest != digest {
		return Info{}, damaged("the file that describes them is not theirs")
	}
	return info, nil
}

// readFile reads one of our own files, which must not be longer than limit.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, limit)
}

// verify compares a layer with its manifest; quick leaves the contents out. The lock
// is held.
func (s *Store) verify(ctx context.Context, digest string, quick bool) error {
	info, err := s.info(digest)
	if err != nil {
		return err
	}
	lock, err := readFile(s.path("layers", digest, lockFile), maxLock)
	if err != nil || (Want{Kind: info.Kind, Runtime: info.Runtime, Lock: lock}).Digest() != digest {
		return damaged("their list is not the one that they are named after")
	}
	list, err := os.Open(s.path("layers", digest, manifestFile))
	if err != nil {
		return damaged("the list of their files cannot be read")
	}
	defer list.Close()
	root, err := os.OpenRoot(s.path("layers", digest, "files"))
	if err != nil {
		return damaged("their files are missing")
	}
	defer root.Close()
	sum := sha256.New()
	known := make(map[string]bool, info.Files)
	lines := bufio.NewScanner(io.TeeReader(list, sum))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || len(known) > info.Files {
			return damaged("the list of their files is broken")
		}
		if err := e.compare(root, quick); err != nil {
			return err
		}
		known[e.Path] = true
	}
	if lines.Err() != nil || hex.EncodeToString(sum.Sum(nil)) != info.Manifest {
		return damaged("the list of their files is broken")
	}
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && !known[name] {
			err = damaged("there is a file that does not belong to them: %.200q", name)
		}
		return err
	})
}

// compare reports how the file of an entry differs from it.
func (e entry) compare(root *os.Root, quick bool) error {
	info, err := root.Lstat(e.Path)
	if err != nil {
		return damaged("a file is missing: %.200q", e.Path)
	}
	mode := info.Mode()
	switch {
	case e.Dir:
		if !mode.IsDir() {
			return damaged("this is no directory any more: %.200q", e.Path)
		}
	case e.Link != "":
		if link, err := root.Readlink(e.Path); err != nil || link != e.Link {
			return damaged("a link leads elsewhere: %.200q", e.Path)
		}
		return nil
	case !mode.IsRegular() || info.Size() != e.Size || e.Exec != (mode&0o111 != 0):
		return damaged("a file has another size or mode: %.200q", e.Path)
	}
	if mode&0o222 != 0 || mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return damaged("a file can be written to: %.200q", e.Path)
	}
	if quick || e.Dir {
		return nil
	}
	f, err := root.Open(e.Path)
	if err != nil {
		return damaged("a file cannot be read: %.200q", e.Path)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read a file of a layer: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != e.Sum {
		return damaged("a file has another content: %.200q", e.Path)
	}
	return nil
}
