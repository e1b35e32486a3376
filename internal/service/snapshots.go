package service

import (
	"context"
	"io"
	"time"

	"haft"
	"haft/internal/session"
	"haft/internal/workspace"
)

// A SnapshotManager keeps the files of sessions in workspaces. Whoever uses it must be allowed to do both: to read
// or write the files of the session, and to add or read the workspace.
type SnapshotManager struct {
	*SessionManager
	workspaces *workspace.API
}

// The entries of a workspace with the files of a session: what the files are of, and the files of /work.
const (
	SnapshotAbout = "about.json"
	SnapshotFiles = "files"
)

// snapshotTime bounds how long files are copied: the session sends and takes them as fast as it likes.
const snapshotTime = 5 * time.Minute

// SaveSession adds a workspace with the files of a session, and with about as what says what they are. A session whose
// code could see secrets is refused: nobody would remove them from its files.
func (m *SnapshotManager) SaveSession(ctx context.Context, p haft.Principal, id string, n haft.NewWorkspace,
	about []byte) error {
	s, err := m.use(ctx, p, haft.CallsRead, id, reads("tar", "-c", "/work"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	from, to := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		to.CloseWithError(session.Pack(ctx, s, to))
	}()
	err = m.workspaces.Import(ctx, p, n, workspace.Archive{AboutName: SnapshotAbout, About: about,
		Dir: SnapshotFiles, Files: from, From: func() ([]string, error) { return mayKeep(s) }})
	cancel() // code of the session can hold what packs its files
	from.CloseWithError(io.ErrClosedPipe)
	<-packed
	return err
}

// mayKeep returns the names of the workspaces that files of a session come from, or why the files may not be kept.
func mayKeep(s *session.Session) ([]string, error) {
	if s.Exposed() {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "code of this session could see secrets, which " +
			"nobody would remove from its files: use a session whose calls have none, or bind them to hosts"}
	}
	return session.Origins(s), nil
}

// LoadSession adds the files of such a workspace to those of a session. A rule on the workspace that forbids it to
// commands forbids that.
func (m *SnapshotManager) LoadSession(ctx context.Context, p haft.Principal, id, name string) error {
	unpack := writes("tar", "-x", "/work")
	unpack.workspace = &haft.CallWorkspace{Name: name, ReadOnly: true}
	s, err := m.use(ctx, p, haft.CallsWrite, id, unpack)
	if err != nil {
		return err
	}
	if w := s.Info().Workspace; w != nil && !w.ReadOnly {
		return &haft.Error{Code: haft.CodeConflict, Message: "the session writes to a workspace, which would not say " +
			"where its files come from: use a session without one"}
	}
	copying, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	from, to := io.Pipe()
	exported := make(chan struct{})
	go func() {
		defer close(exported)
		to.CloseWithError(m.workspaces.Export(copying, p, name, SnapshotFiles, to,
			func(from []string) { session.NoteOrigins(s, from) }))
	}()
	err = session.Unpack(copying, s, from)
	cancel()
	from.CloseWithError(io.ErrClosedPipe)
	<-exported
	if err != nil {
		return err
	}
	return m.log(ctx, p, "workspace.load", map[string]any{"workspace": name, "session": s.Info().ID})
}
