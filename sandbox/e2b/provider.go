package e2b

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the relay
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

//go:embed relay.py
var relaySource string

// A Provider runs commands in machines of E2B. It implements [sandbox.Provider].
//
// Lifecycle: New, Run as often as needed, Close.
type Provider struct {
	pool   *pool
	cancel context.CancelFunc
	reaper chan struct{} // closed when it has ended
}

// New checks a configuration, and starts to look after machines. It does not speak to the server before the first run,
// except that machines which an earlier process left are ended.
func New(ctx context.Context, cfg Config) (*Provider, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	known := cfg.Owner != ""
	if !known {
		cfg.Owner = strings.ToLower(rand.Text())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Provider{cancel: cancel, reaper: make(chan struct{}), pool: &pool{api: newAPI(cfg),
		all: map[string]*machine{}, making: map[string]int{}, adopted: map[string]bool{}}}
	go p.look(ctx, known)
	return p, nil
}

// look ends what is not needed any more, on a timer, and at once if an earlier process may have left something.
func (p *Provider) look(ctx context.Context, now bool) {
	defer close(p.reaper)
	tick := time.NewTicker(min(p.pool.cfg.Idle, p.pool.cfg.Life) / 2)
	defer tick.Stop()
	for {
		if now {
			if err := p.pool.reap(ctx, time.Now()); err != nil && ctx.Err() == nil {
				p.pool.cfg.Logger.WarnContext(ctx, "sandboxes of E2B could not be looked through", "err", err)
			}
		}
		select {
		case <-tick.C:
			now = true
		case <-ctx.Done():
			return
		}
	}
}

// Close ends all machines that no run uses. It can be called twice.
func (p *Provider) Close() error {
	p.cancel()
	<-p.reaper
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	p.pool.close(ctx)
	p.pool.http.CloseIdleConnections()
	return nil
}

// List returns the running machines that any Haft has made with this key.
func (p *Provider) List(ctx context.Context) ([]Info, error) { return p.pool.list(ctx, nil) }

// Remove ends a machine that a Haft has made.
func (p *Provider) Remove(ctx context.Context, id string) error {
	list, err := p.List(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(i Info) bool { return i.ID == id }) {
		return &haft.Error{Code: haft.CodeNotFound, Message: "Haft has no such sandbox at E2B: see haft sandbox list"}
	}
	return p.pool.kill(ctx, id)
}

// Isolation implements [sandbox.Provider]. It states no control: none can be seen from here.
func (p *Provider) Isolation(context.Context) (haft.Isolation, error) { return p.isolation(), nil }

// isolation is the same for every run.
func (p *Provider) isolation() haft.Isolation {
	iso := haft.Isolation{Level: p.pool.cfg.Level, Controls: []haft.Control{}}
	for _, c := range haft.Controls() {
		iso.Missing = append(iso.Missing, haft.Gap{Control: c,
			Reason: "it cannot be seen in a machine of another server"})
	}
	return iso
}

// Run implements [sandbox.Provider].
func (p *Provider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	channel, err := takeChannel(spec.Channel)
	if channel != nil {
		defer channel.Close()
	}
	if err == nil {
		err = p.check(spec)
	}
	if err != nil {
		return sandbox.Exit{}, err
	}
	for again := false; ; again = true {
		if err := ctx.Err(); err != nil {
			return sandbox.Exit{}, fmt.Errorf("run a command at E2B: %w", err)
		}
		m, err := p.pool.acquire(ctx, p.state(spec), spec.Tenant, spec.Network == sandbox.NetworkFull)
		if err != nil {
			return sandbox.Exit{}, err
		}
		r := newRun(p, m, spec, channel)
		exit, err := r.do(ctx)
		p.pool.release(ctx, m, err == nil && r.clean)
		if errors.Is(err, errGone) && !r.begun && !again {
			continue // it has ended while nobody used it
		}
		return exit, err
	}
}

// check refuses what cannot be done in another machine.
func (p *Provider) check(spec sandbox.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if err := spec.Need.Check(p.isolation()); err != nil {
		return err
	}
	if spec.Network == sandbox.NetworkEgress {
		return denied("a sandbox of E2B cannot be held to named hosts: run this tool in a sandbox of this machine")
	}
	if spec.Observe {
		return denied("what a tool touches is not seen in a sandbox of E2B: run it in the sandbox local")
	}
	if spec.Terminals {
		return denied("a sandbox of E2B has no sessions of Haft")
	}
	size := 0
	for _, f := range spec.Files {
		size += len(f.Data)
	}
	if size > maxFiles {
		return invalid(fmt.Sprintf("the files of a run at E2B have at most %d bytes", maxFiles))
	}
	for _, m := range spec.Mounts {
		if m.Writable {
			return denied("a directory of this machine, such as a workspace, cannot be written to from a sandbox " +
				"of E2B")
		}
		if st, err := os.Stat(m.Host); err != nil || m.Host != m.Inside && !st.IsDir() {
			return &sandbox.SetupError{Step: "mount", Path: m.Inside, Err: errnoOf(err)}
		}
	}
	return nil
}

// maxFiles and maxLayer bound what is sent to a machine: the files of a run, and a directory of packages.
const (
	maxFiles = 64 << 20
	maxLayer = 1 << 30
)

// denied is the error of what this provider refuses.
func denied(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }

// errnoOf returns an error without a path of the host.
func errnoOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if err == nil {
		return errors.New("it is not a directory")
	}
	return err
}

// state is the digest of what a machine is made for. Runs whose states are the same may use one machine, one after
// the other.
func (p *Provider) state(spec sandbox.Spec) string {
	raw, _ := json.Marshal(struct { // strings always encode
		Tenant, Template, Network, Relay string
		Layers                           []string
	}{spec.Tenant, p.pool.cfg.Template, string(spec.Network), relaySource, layersOf(spec)})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// layersOf lists the directories that a machine is given: those that are at another place inside. What is at its own
// place belongs to the system, which a machine has itself.
func layersOf(spec sandbox.Spec) []string {
	list := []string{}
	for _, m := range spec.Mounts {
		if m.Host != m.Inside {
			list = append(list, m.Inside)
		}
	}
	slices.Sort(list)
	return list
}

// sendLayers uploads packages that a machine does not have yet.
func (p *Provider) sendLayers(ctx context.Context, m *machine, spec sandbox.Spec) error {
	for _, mount := range spec.Mounts {
		if mount.Host == mount.Inside || m.layers[mount.Inside] {
			continue
		}
		r, w := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := pack(w, mount.Host)
			w.CloseWithError(err)
			packed <- err
		}()
		err := p.pool.upload(ctx, m, mount.Inside+".tar.gz", r)
		_ = r.CloseWithError(errGone) // pack ends, if the server has not read all
		if failed := <-packed; failed != nil && err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
		m.layers[mount.Inside] = true
	}
	return nil
}

// pack writes a directory as an archive.
func pack(w io.Writer, dir string) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return errnoOf(err)
	}
	defer root.Close()
	left := int64(maxLayer)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil // links of programs are not imported
		}
		head := &tar.Header{Name: path.Clean(name), Mode: int64(info.Mode().Perm()) | 0o700, Typeflag: tar.TypeDir}
		if info.Mode().IsRegular() {
			head.Typeflag, head.Size = tar.TypeReg, info.Size()
			if left -= info.Size(); left < 0 {
				return invalid(fmt.Sprintf("the packages are larger than %d bytes, the most for a sandbox of E2B",
					maxLayer))
			}
		}
		if err := archive.WriteHeader(head); err != nil || head.Typeflag == tar.TypeDir {
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close() // only read
		_, err = io.Copy(archive, f)
		return err
	})
	return errors.Join(err, archive.Close(), zip.Close())
}
