package e2b

import (
	"context"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"haft"
)

// home is the home of the user of a sandbox for E2B's clients, and work the same directory in Haft.
const (
	home    = "/home/user"
	work    = "/work"
	maxPath = 4096
)

// place returns the path of Haft for one of a client, which is relative to its home.
func place(p string) (string, error) {
	if len(p) > maxPath || strings.ContainsRune(p, 0) {
		return "", invalid("the path is too long, or holds NUL")
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = "." + p[1:]
	}
	if !path.IsAbs(p) {
		p = path.Join(home, p)
	}
	p = path.Clean(p)
	if rest, ok := strings.CutPrefix(p, home); ok && (rest == "" || rest[0] == '/') {
		p = work + rest
	}
	return p, nil
}

// shown returns the path of a client for one of Haft.
func shown(p string) string {
	if rest, ok := strings.CutPrefix(p, work); ok && (rest == "" || rest[0] == '/') {
		return home + rest
	}
	return p
}

// pathRequest is the message of operations on one path.
type pathRequest struct {
	Path  string `json:"path"`
	Depth int    `json:"depth"`
}

// entryInfo describes a file.
type entryInfo struct {
	Name        string    `json:"name"`
	Type        string    `json:"type"`
	Path        string    `json:"path"`
	Size        string    `json:"size"`
	Mode        uint32    `json:"mode"`
	Permissions string    `json:"permissions"`
	Owner       string    `json:"owner"`
	Group       string    `json:"group"`
	Modified    time.Time `json:"modifiedTime"`
	Target      string    `json:"symlinkTarget,omitempty"`
	Symlink     bool      `json:"isSymlink,omitempty"`
}

// entry describes a file of a session as E2B does.
func entry(f haft.SessionFile) entryInfo {
	perm := fs.FileMode(f.Mode & 0o777)
	e := entryInfo{Name: f.Name, Path: shown(f.Path), Size: strconv.FormatInt(f.Size, 10), Mode: f.Mode & 0o7777,
		Owner: "user", Group: "user", Modified: f.Modified, Type: "FILE_TYPE_UNSPECIFIED", Permissions: perm.String()}
	switch f.Type {
	case "file":
		e.Type = "FILE_TYPE_FILE"
	case "dir":
		e.Type, e.Permissions = "FILE_TYPE_DIRECTORY", (perm | fs.ModeDir).String()
	case "symlink":
		e.Type, e.Symlink, e.Target = "FILE_TYPE_SYMLINK", true, shown(f.Target)
		e.Permissions = (perm | fs.ModeSymlink).String()
	}
	return e
}

// fileHandlers are the operations of filesystem.Filesystem, and the content of files.
type fileHandlers struct{ *API }

// routes registers them.
func (a fileHandlers) routes() {
	const of = "filesystem.Filesystem/"
	unary(a.API, of+"Stat", haft.CallsRead,
		func(ctx context.Context, p haft.Principal, s *sandbox, in pathRequest) (any, error) {
			return a.stat(ctx, p, s, in.Path)
		})
	unary(a.API, of+"ListDir", haft.CallsRead, a.listDir)
	unary(a.API, of+"MakeDir", haft.CallsWrite, a.makeDir)
	unary(a.API, of+"Move", haft.CallsWrite, a.move)
	unary(a.API, of+"Remove", haft.CallsWrite, a.remove)
	streaming(a.API, of+"WatchDir", haft.CallsRead, a.watchDir)
	unary(a.API, of+"CreateWatcher", haft.CallsRead, a.createWatcher)
	unary(a.API, of+"GetWatcherEvents", haft.CallsRead, a.watcherEvents)
	unary(a.API, of+"RemoveWatcher", haft.CallsRead, a.removeWatcher)
	a.inside.HandleFunc("GET "+FilesPath, a.onFiles(haft.CallsRead, a.download))
	a.inside.HandleFunc("POST "+FilesPath, a.onFiles(haft.CallsWrite, a.upload))
	a.inside.HandleFunc("GET /health", a.health)
	a.inside.HandleFunc("GET /envs", a.onFiles(haft.CallsRead,
		func(w http.ResponseWriter, _ *http.Request, _ haft.Principal, s *sandbox) error {
			writeJSON(w, http.StatusOK, s.env)
			return nil
		}))
}

// describe returns the file at a path of Haft.
func (a fileHandlers) describe(ctx context.Context, p haft.Principal, s *sandbox,
	at string) (*haft.SessionFile, error) {
	dir, err := a.cfg.Files.ListFiles(ctx, p, s.session, at, 0)
	if err != nil {
		return nil, err
	}
	if len(dir.Files) != 1 {
		return nil, missing("there is no such file")
	}
	return &dir.Files[0], nil
}

// stat describes the file at a path of a client.
func (a fileHandlers) stat(ctx context.Context, p haft.Principal, s *sandbox, name string) (any, error) {
	at, err := place(name)
	if err != nil {
		return nil, err
	}
	f, err := a.describe(ctx, p, s, at)
	if err != nil {
		return nil, err
	}
	return map[string]any{"entry": entry(*f)}, nil
}

func (a fileHandlers) listDir(ctx context.Context, p haft.Principal, s *sandbox, in pathRequest) (any, error) {
	at, err := place(in.Path)
	if err != nil {
		return nil, err
	}
	if in.Depth < 0 {
		return nil, invalid("the depth is at least 1")
	}
	dir, err := a.cfg.Files.ListFiles(ctx, p, s.session, at, max(in.Depth, 1))
	if err != nil {
		return nil, err
	}
	if dir.Cut {
		return nil, &haft.Error{Code: haft.CodeRateLimited,
			Message: "the directory has more files than can be listed: list a part of it"}
	}
	entries := []entryInfo{}
	for _, f := range dir.Files {
		entries = append(entries, entry(f))
	}
	return map[string]any{"entries": entries}, nil
}

func (a fileHandlers) makeDir(ctx context.Context, p haft.Principal, s *sandbox, in pathRequest) (any, error) {
	at, err := place(in.Path)
	if err != nil {
		return nil, err
	}
	switch f, err := a.describe(ctx, p, s, at); {
	case err == nil && f.Type == "dir":
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the directory is there already"}
	case err == nil:
		return nil, invalid("there is a file of this name")
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	}
	if err := a.cfg.Files.MakeDir(ctx, p, s.session, at); err != nil {
		return nil, err
	}
	return a.stat(ctx, p, s, in.Path)
}

// moveRequest is the message of Move.
type moveRequest struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

func (a fileHandlers) move(ctx context.Context, p haft.Principal, s *sandbox, in moveRequest) (any, error) {
	from, err := place(in.Source)
	if err != nil {
		return nil, err
	}
	to, err := place(in.Destination)
	if err != nil {
		return nil, err
	}
	if err := a.cfg.Files.MoveFile(ctx, p, s.session, from, to); err != nil {
		return nil, err
	}
	return a.stat(ctx, p, s, in.Destination)
}

func (a fileHandlers) remove(ctx context.Context, p haft.Principal, s *sandbox, in pathRequest) (any, error) {
	at, err := place(in.Path)
	if err != nil {
		return nil, err
	}
	err = a.cfg.Files.RemoveFile(ctx, p, s.session, at)
	return struct{}{}, err
}

// health answers whether the sandbox lives.
func (a fileHandlers) health(w http.ResponseWriter, r *http.Request) {
	s := sandboxOf(r.Context())
	p, err := a.principal(r.Context(), haft.CallsRead)
	alive := false
	if err == nil {
		alive, err = a.alive(r.Context(), p, s)
	}
	if err != nil || !alive {
		errGone.write(w, s.id)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
